// Where everything of a topology goes. Pure: sizes in pixels in, positions out; nothing here touches the page.
//
// Hosts stand in columns by their distance from the first host. A row of single hosts (pair, router, chain) has the
// program badges above the cards; where a column holds several (fanout) each host has its own badge above it, and a
// host with many interfaces is as tall as its neighbours, so that every link is a straight line. Where the columns
// don't fit, the hosts stand in one column, with the links between them or along a rail at the left.

const EDGE = 14;
const BADGE = { height: 52, width: 260, gap: 12 };
const CARD = { height: 122, compact: 56, narrow: 92, narrowCompact: 72, max: 232, narrowMax: 600 };
// The least that a card and a link take; many hosts in a row get by with less.
const LEAST = { card: 132, link: 128 };
const LEAST_OF_MANY = { card: 112, link: 84 };
const LEAST_OF_COLUMNS = { card: 190, link: 180 };
const LOSS_LINE = 18;

/**
 * @param topology {hosts: [{name, address}], links: [{a: {host, interface}, b: {…}}]}
 * @param width    of the picture
 * @param badges   "host interface" of every interface with a program
 * @param losses   {host name or link number: lines wanted below it}
 * @returns {width, height, cards, interfaces, links, badges}, see the three functions below
 */
function layoutTopology(topology, width, badges, losses) {
  const columns = columnsOf(topology);
  const single = columns.every((column) => column.length === 1);
  const least = !single ? LEAST_OF_COLUMNS : columns.length > 3 ? LEAST_OF_MANY : LEAST;
  const room = (width - 2 * EDGE - least.link * (columns.length - 1)) / columns.length;
  const plan = { topology, width, badges, losses, columns, least };
  if (room < least.card) return layoutNarrow(plan);
  return single ? layoutRow(plan) : layoutColumns(plan);
}

/** Host names in columns by distance from the first host; hosts without a link stand in the first. */
function columnsOf({ hosts, links }) {
  const depth = new Map();
  for (const start of hosts) {
    if (depth.has(start.name)) continue;
    depth.set(start.name, 0);
    for (const queue = [start.name]; queue.length;) {
      const name = queue.shift();
      for (const { a, b } of links) {
        const next = a.host === name ? b.host : b.host === name ? a.host : null;
        if (next === null || depth.has(next)) continue;
        depth.set(next, depth.get(name) + 1);
        queue.push(next);
      }
    }
  }
  const columns = [];
  for (const { name } of hosts) (columns[depth.get(name)] ??= []).push(name);
  return columns;
}

/** Columns with equal cards and equal gaps: [{x, w}]. */
function columnPlaces({ width, columns, least }) {
  const n = columns.length;
  const inner = width - 2 * EDGE;
  const w = Math.min(CARD.max, Math.max(least.card, (inner / n) * 0.56));
  const gap = n > 1 ? (inner - n * w) / (n - 1) : 0;
  return columns.map((_, i) => ({ x: n > 1 ? EDGE + i * (w + gap) : (width - w) / 2, w }));
}

/** One host a column. */
function layoutRow(plan) {
  const { topology, columns, badges, losses } = plan;
  const top = 14 + BADGE.height + BADGE.gap;
  const places = columnPlaces(plan);
  const cards = columns.map(([host], i) => ({ host, ...places[i], y: top, h: CARD.height, style: "tall" }));
  const middle = top + 66;
  const { interfaces, links } = wire(topology, cards, () => middle);
  let extra = Math.max(0, ...cards.map((card) => losses[card.host] ?? 0));
  if (links.some((link) => link.loss.room < 180)) {
    // Too little room between the cards for a name: below them, then.
    for (const { loss } of links)
      Object.assign(loss, { y: top + CARD.height + 17 + LOSS_LINE * extra, room: loss.room + 110 });
    extra += Math.max(0, ...links.map((link) => losses[link.index] ?? 0));
  }
  const placed = interfaces.filter((i) => badges.has(`${i.host} ${i.interface}`)).sort((a, b) => a.x - b.x);
  return {
    width: plan.width,
    height: top + CARD.height + 14 + Math.max(1, extra) * LOSS_LINE,
    cards,
    interfaces,
    links,
    badges: spread(placed, plan.width).map(({ at, x, w }) => ({
      host: at.host,
      interface: at.interface,
      x,
      y: 14,
      w,
      leader: leaderTo(at, x, w, 14 + BADGE.height),
    })),
  };
}

/** Badges side by side, each as near to its interface as the others let it. */
function spread(placed, width) {
  const n = placed.length;
  const apart = Math.min(...placed.slice(1).map((at, i) => at.x - placed[i].x - 10));
  const w = Math.min(BADGE.width, (width - 2 * EDGE - 10 * (n - 1)) / Math.max(1, n), Math.max(apart, 160));
  const out = placed.map((at) => ({
    at,
    w,
    x: Math.min(Math.max(at.x - (at.side === "left" ? w * 0.3 : w * 0.7), EDGE), width - EDGE - w),
  }));
  for (let i = 1; i < n; i++) out[i].x = Math.max(out[i].x, out[i - 1].x + w + 10);
  for (let i = n - 1, limit = width - EDGE - w; i >= 0; i--, limit = out[i + 1]?.x - w - 10)
    out[i].x = Math.min(out[i].x, limit);
  return out;
}

function leaderTo(at, x, w, bottom) {
  return [Math.min(Math.max(at.x, x + 12), x + w - 12), bottom, at.x, at.y - 7];
}

/** Several hosts in a column. */
function layoutColumns(plan) {
  const { topology, columns, badges, losses } = plan;
  const places = columnPlaces(plan);
  const degree = (name) => topology.links.filter((l) => l.a.host === name || l.b.host === name).length;
  const has = (name) => [...badges].some((key) => key.startsWith(`${name} `));
  const cards = [];
  const middles = new Map();
  const head = 96;
  columns.forEach((column, i) => {
    let y = 16;
    if (column.length === 1) return;
    for (const host of column) {
      if (has(host)) y += BADGE.height + 8;
      if (cards.length === 0) y = Math.max(y, 16 + head - CARD.compact / 2);
      cards.push({ host, ...places[i], y, h: CARD.compact, style: "compact" });
      middles.set(host, y + CARD.compact / 2);
      y += CARD.compact + 14 + LOSS_LINE * (losses[host] ?? 0);
    }
  });
  const bottom = Math.max(...cards.map((c) => c.y + c.h));
  columns.forEach((column, i) => {
    if (column.length !== 1) return;
    const [host] = column;
    const tall = degree(host) > 2;
    const first = Math.min(...middles.values());
    const y = tall ? first - head : (16 + bottom - CARD.height) / 2;
    cards.push({ host, ...places[i], y, h: tall ? bottom + 26 - y : CARD.height, style: "tall" });
  });
  const heightOf = (end, other) => {
    const card = cards.find((c) => c.host === end.host);
    if (card.style === "compact") return middles.get(end.host);
    return middles.get(other.host) ?? card.y + 66;
  };
  const { interfaces, links } = wire(topology, cards, heightOf);
  const placed = interfaces.filter((i) => badges.has(`${i.host} ${i.interface}`));
  const height = 20 + Math.max(...cards.map((c) => c.y + c.h + LOSS_LINE * (losses[c.host] ?? 0)));
  return {
    width: plan.width,
    height,
    cards,
    interfaces,
    links,
    badges: placed.map((at) => {
      const card = cards.find((c) => c.host === at.host);
      const inside = card.style === "tall";
      const w = Math.min(BADGE.width, inside ? card.w - 60 : card.w);
      const x = inside ? (at.side === "left" ? card.x + 44 : card.x + card.w - 44 - w) : card.x;
      const y = inside ? at.y - BADGE.height / 2 : card.y - BADGE.height - 8;
      return {
        host: at.host,
        interface: at.interface,
        x,
        y,
        w,
        leader: inside ? null : leaderTo(at, x, w, y + BADGE.height),
      };
    }),
  };
}

/** Interfaces on the facing sides of the cards and straight links between them. */
function wire(topology, cards, heightOf) {
  const interfaces = [];
  const find = (host) => cards.find((c) => c.host === host);
  const links = topology.links.map((link, index) => {
    const [a, b] = [find(link.a.host), find(link.b.host)];
    const forward = a.x <= b.x;
    const put = (end, card, side, y) => {
      const x = side === "right" ? card.x + card.w : card.x;
      // A low card has no room for the name inside: it goes on the link.
      const out = card.style === "compact" ? -1 : 1;
      const inward = (side === "right" ? -1 : 1) * out;
      const label = {
        x: x + inward * (out > 0 ? 13 : 10),
        y: out > 0 ? y + 4 : y - 9,
        anchor: inward < 0 ? "end" : "start",
      };
      interfaces.push({ ...end, side, x, y, label });
      return [x, y];
    };
    const from = put(link.a, a, forward ? "right" : "left", heightOf(link.a, link.b));
    const to = put(link.b, b, forward ? "left" : "right", heightOf(link.b, link.a));
    const middle = { x: (from[0] + to[0]) / 2, y: (from[1] + to[1]) / 2 };
    return {
      index,
      points: [from, to],
      label: { x: middle.x, y: middle.y - 12, anchor: "middle" },
      back: { x: middle.x, y: middle.y + 22, anchor: "middle" },
      loss: { x: middle.x, y: middle.y + 26, anchor: "middle", room: Math.abs(to[0] - from[0]) + 20 },
    };
  });
  return { interfaces, links };
}
