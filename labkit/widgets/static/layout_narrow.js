// Where everything goes in a narrow picture: see layout.js.

/** All hosts below one another. */
function layoutNarrow(plan) {
  const { topology, width, columns, badges, losses } = plan;
  const order = columns.flat();
  const star = columns.some((column) => column.length > 1);
  const rail = star ? 10 + 9 * Math.min(topology.links.length, 8) : 0;
  const badgeOf = (end) => (badges.has(`${end.host} ${end.interface}`) ? BADGE.height + 8 : 0);
  const between = (i) =>
    topology.links.findIndex(({ a, b }) => {
      const pair = [a.host, b.host];
      return pair.includes(order[i - 1]) && pair.includes(order[i]);
    });
  const ownBadges = (host) =>
    Math.max(
      0,
      ...topology.links
        .flatMap((l) => [l.a, l.b])
        .filter((end) => end.host === host)
        .map(badgeOf),
    );
  const right = Math.min(width, CARD.narrowMax + 2 * EDGE) - EDGE;
  const cards = [];
  let y = 14 + (star ? ownBadges(order[0]) : 0);
  order.forEach((host, i) => {
    const hub = star && i === 0;
    const link = i ? topology.links[between(i)] : null;
    if (star && i) {
      y += 16 + ownBadges(host);
    } else if (i) {
      y += 50 + (link ? badgeOf(link.a) + badgeOf(link.b) + LOSS_LINE * (losses[between(i)] ?? 0) : 0);
    }
    const x = EDGE + (hub ? 0 : rail);
    cards.push({
      host,
      x,
      y,
      w: right - x,
      h: star && i ? CARD.narrowCompact : CARD.narrow,
      style: star && i ? "compact" : "flat",
    });
    const wire = star && i ? topology.links.findIndex((l) => l.a.host === host || l.b.host === host) : -1;
    y += cards[i].h + LOSS_LINE * ((losses[host] ?? 0) + (losses[wire] ?? 0));
    if (hub) y += 18;
  });
  const find = (name) => cards.find((c) => c.host === name);
  const interfaces = [];
  const links = topology.links.map((link, index) => {
    const down = find(link.a.host).y <= find(link.b.host).y;
    const [upper, lower] = down ? [link.a, link.b] : [link.b, link.a];
    const [top, low] = [find(upper.host), find(lower.host)];
    let [points, label, extra] = [];
    if (star) {
      const x = EDGE + 6 + rail - 9 * ((index % 8) + 1);
      const mid = low.y + low.h / 2;
      points = [
        [x, top.y + top.h],
        [x, mid],
        [low.x, mid],
      ];
      label = { x: low.x + low.w - 14, y: low.y + 42, anchor: "end" };
      extra = {
        back: { ...label, y: label.y + 18 },
        loss: {
          x: low.x + 16,
          y: low.y + low.h + 17 + LOSS_LINE * (losses[lower.host] ?? 0),
          anchor: "start",
          room: low.w - 20,
        },
      };
      interfaces.push({ ...upper, side: "bottom", x, y: top.y + top.h, r: 4, label: null });
      interfaces.push({ ...lower, side: "left", x: low.x, y: mid, r: 5, label: null });
    } else {
      const x = EDGE + 40;
      const [y1, y2] = [top.y + top.h, low.y];
      points = [
        [x, y1],
        [x, y2],
      ];
      label = { x: x + 20, y: y1 + badgeOf(upper) + 30, anchor: "start" };
      interfaces.push({
        ...upper,
        side: "bottom",
        x,
        y: y1,
        label: { x: x - 11, y: y1 + 16, anchor: "end", room: 36 },
      });
      interfaces.push({ ...lower, side: "top", x, y: y2, label: { x: x - 11, y: y2 - 8, anchor: "end", room: 36 } });
      extra = { back: { ...label, x: x + 130 }, loss: { ...label, y: label.y + 18, room: right - label.x } };
    }
    if (!down) points.reverse();
    return { index, points, label, ...extra };
  });
  const placed = interfaces.filter((i) => badges.has(`${i.host} ${i.interface}`));
  return {
    width,
    height: y + 16,
    cards,
    interfaces,
    links,
    badges: placed.map((at) => {
      const card = find(at.host);
      const x = star ? card.x : at.x + 20;
      const below = at.side === "bottom" && !star;
      const top = below ? card.y + card.h + 6 : card.y - BADGE.height - 6;
      const w = Math.min(BADGE.width + 40, card.x + card.w - x);
      return {
        host: at.host,
        interface: at.interface,
        x,
        y: top,
        w,
        leader: star ? null : [x, top + BADGE.height / 2, at.x + 5, below ? at.y + 6 : at.y - 6],
      };
    }),
  };
}
