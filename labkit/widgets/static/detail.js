// What a host, an interface or a program is like just now, in a line of words: for the mouse and for the keyboard.

/** Places that can be asked about, over the picture: one stop of the Tab key, arrows go from one to the next. */
function buildPlaces(layer, plan, ask) {
  const card = ({ host, x, y, w, h }) => ({ key: `host ${host}`, x, y, w, h, r: 10 });
  const badge = ({ host, interface: name, x, y, w }) => ({
    key: `program ${host} ${name}`, x, y, w, h: BADGE.height, r: 8,
  });
  const spot = ({ host, interface: name, x, y }) => ({
    key: `interface ${host} ${name}`, x: x - 11, y: y - 11, w: 22, h: 22, r: 11,
  });
  const places = [...plan.cards.map(card), ...plan.badges.map(badge), ...plan.interfaces.map(spot)].map((at, i) => {
    const node = svg("rect", {
      ...OWN_KEYS, x: at.x, y: at.y, width: at.w, height: at.h, rx: at.r,
      class: "xdp-place", role: "img", tabindex: i ? -1 : 0, "aria-label": at.key, "data-place": at.key,
    });
    node.addEventListener("pointerenter", () => ask(at.key, node));
    node.addEventListener("pointerleave", () => ask(null, node));
    node.addEventListener("focus", () => ask(at.key, node));
    node.addEventListener("blur", () => ask(null, node));
    node.addEventListener("keydown", (event) => move(event, i));
    return node;
  });
  const move = (event, i) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") places[i].blur();
    if (!by) return;
    event.preventDefault();
    const next = places[(i + by + places.length) % places.length];
    setAttribute(places[i], "tabindex", -1);
    setAttribute(next, "tabindex", 0);
    next.focus();
  };
  layer.append(...places);
}

/** "interface server eth0" → what the frame says of it, in words. */
function placeInWords(key, topology, frame) {
  const [kind, host, name] = key.split(" ");
  if (kind === "host") {
    const { address = "" } = topology.hosts.find((each) => each.name === host) ?? {};
    const ends = (frame.interfaces ?? []).filter((each) => each.host === host).map(endInWords);
    return [`${host}${address ? ` (${address})` : ""}`, ...(frame.hosts?.[host] ?? []), ...ends].join(" · ");
  }
  if (kind === "interface") {
    const end = (frame.interfaces ?? []).find((each) => each.host === host && each.interface === name);
    if (!end) return `${host} ${name}`;
    const offloads = end.offloads ? [end.offloads] : [];
    const rates = `in ${formatRate(end.rx_pps)}, out ${formatRate(end.tx_pps)}`;
    return [`${host} ${endInWords(end)}`, `joined to ${end.peer}`, rates, ...offloads].join(" · ");
  }
  const program = (frame.programs ?? []).find((each) => each.host === host && each.interface === name);
  if (!program) return `no program at ${host} ${name}`;
  const counts = Object.entries(program.verdicts ?? {}).map(([verdict, n]) => `${verdict} ${formatCount(n)}`);
  const facts = [`${program.mode} mode`, `id ${program.id}`, program.tag && `tag ${program.tag}`, program.note];
  return [`${program.name} at ${host} ${name}`, ...facts.filter(Boolean), ...counts].join(" · ");
}

function endInWords({ interface: name, up, mtu, mode }) {
  return `${name} ${up ? "up" : "DOWN"}, MTU ${mtu}${mode ? `, XDP ${mode}` : ""}`;
}
