// The picture of the lab: hosts, interfaces, links, programs with their verdicts, losses, and packets on the move.

const FONTS = { name: 14, strong: 12, text: 11.5, small: 11 };
const VERDICTS = ["PASS", "REDIRECT", "TX", "DROP", "ABORTED"];
const VERDICT_ROLE = { PASS: "pass", REDIRECT: "redirect", TX: "tx", DROP: "drop", ABORTED: "abort" };
const QUIET_PPS = 0.5;

/** Draws into `box`; returns {update(topology, frame), resize(), dots}; `ask(key)` is told what is looked at. */
function makeTopology(box, ask) {
  const art = svg("svg", { role: "group", class: "xdp-art" });
  const family = () => getComputedStyle(box).fontFamily;
  box.append(art);
  let built = null;
  let structure = "";
  let width = 0;
  const reserved = {};

  function update(topology, frame) {
    if (!topology?.hosts?.length || width < 200) return;
    const programs = frame.programs ?? [];
    const badges = new Set(programs.map((p) => `${p.host} ${p.interface}`));
    const losses = groupLosses(frame.losses ?? []);
    // Room that a loss once took stays reserved, so that the picture doesn't jump.
    for (const [key, list] of losses) reserved[key] = Math.max(reserved[key] ?? 0, Math.min(list.length, 3));
    const wanted = JSON.stringify([topology, width, [...badges].sort(), reserved]);
    if (wanted !== structure) {
      structure = wanted;
      built = buildTopology(art, topology, layoutTopology(topology, width, badges, reserved), family(), ask);
      setAttribute(art, "aria-label", inWords(topology));
    }
    built.update(frame, losses, programs);
  }

  return {
    update,
    get flows() {
      return built?.flows ?? [];
    },
    resize(next) {
      width = Math.floor(next);
    },
  };
}

function groupLosses(losses) {
  const groups = new Map();
  for (const loss of losses) {
    const key = loss.host ?? loss.link;
    groups.set(key, [...(groups.get(key) ?? []), loss]);
  }
  return groups;
}

function inWords({ title, links }) {
  const wires = links.map(({ a, b }) => `${a.host} ${a.interface} to ${b.host} ${b.interface}`);
  return `Topology ${title ?? ""}: ${wires.join("; ")}. The ledger table says where the packets went.`;
}

/** Makes every node once for one arrangement; the returned update changes texts and attributes only. */
function buildTopology(art, topology, plan, family, ask) {
  setAttribute(art, "viewBox", `0 0 ${plan.width} ${plan.height}`);
  setAttribute(art, "width", plan.width);
  setAttribute(art, "height", plan.height);
  const font = (size, weight = 400) => `${weight} ${size}px ${family}`;
  const layers = { cards: svg("g"), links: svg("g"), marks: svg("g"), badges: svg("g"), places: svg("g") };
  art.replaceChildren(layers.cards, layers.links, layers.badges, layers.marks, layers.places);
  const addresses = Object.fromEntries(topology.hosts.map((h) => [h.name, h.address ?? ""]));
  const cards = plan.cards.map((card) => buildCard(layers.cards, card, plan.width - EDGE, addresses[card.host], font));
  const links = plan.links.map((link) => buildLink(layers.links, link, font));
  const spots = plan.interfaces.map((spot) => buildInterface(layers.marks, spot, font));
  buildPlaces(layers.places, plan, ask);
  const badges = plan.badges.map((badge) => buildBadge(layers.badges, badge, font));
  return {
    flows: links.map((link) => link.flow),
    update(frame, losses, programs) {
      const offline = frame.offline;
      for (const card of cards) card.update(frame.hosts?.[card.host] ?? [], losses.get(card.host) ?? []);
      for (const link of links) {
        const rates = offline ? {} : (frame.links?.[link.index] ?? {});
        link.update(rates, losses.get(link.index) ?? []);
      }
      for (const spot of spots) spot.update(frame.interfaces ?? []);
      for (const badge of badges) {
        badge.update(programs.find((p) => p.host === badge.host && p.interface === badge.interface));
      }
    },
  };
}

function buildCard(layer, card, limit, address, font) {
  const { x, y, w, h, style } = card;
  const inner = w - 30;
  const compact = style === "compact";
  const text = (dx, dy, cls, anchor = "start") =>
    svg("text", { x: x + dx, y: y + dy, class: cls, "text-anchor": anchor });
  const name = text(16, compact ? 22 : 25, "xdp-name");
  const beside = style !== "tall";
  const rates = compact && w > CARD.max ? 100 : 0; // a rate stands at the end of the line
  const where = beside
    ? text(w - 14, compact ? 22 : 25, "xdp-text xdp-muted", "end")
    : text(16, 43, "xdp-text xdp-muted");
  const lines = {
    tall: [
      [h - 30, "xdp-text"],
      [h - 13, "xdp-text xdp-muted"],
    ],
    flat: [
      [54, "xdp-text"],
      [71, "xdp-text xdp-muted"],
    ],
    compact: [[42, "xdp-text xdp-muted"]],
  }[style];
  const doing = lines.map(([dy, cls]) => text(16, dy, cls));
  layer.append(svg("rect", { x, y, width: w, height: h, rx: 10, class: "xdp-card" }), name, where, ...doing);
  setFitted(name, card.host, beside ? inner * 0.5 : inner, font(FONTS.name, 700));
  setFitted(where, address, beside ? inner * 0.5 : inner, font(FONTS.text));
  const marks = buildLosses(layer, { x: x + 16, y: y + h + 17, anchor: "start", room: 300, limit }, font);
  return {
    host: card.host,
    update(words, losses) {
      const rows = doing.length === 1 ? [words.join(" · ")] : words;
      doing.forEach((node, i) => setFitted(node, rows[i] ?? "", inner - rates, font(FONTS.text)));
      marks.update(losses);
    },
  };
}

function buildInterface(layer, spot, font) {
  const r = spot.r ?? 6.5;
  const ring = svg("circle", { cx: spot.x, cy: spot.y, r, class: "xdp-interface" });
  const [a, b] = [r * 0.7, `M${spot.x} ${spot.y}`];
  const cross = svg("path", { d: `${b}m${-a} ${-a}l${2 * a} ${2 * a}m0 ${-2 * a}l${-2 * a} ${2 * a}`, class: "xdp-wire" });
  const down = svg("g", { display: "none" }, cross); // crossed out: the interface is down
  layer.append(ring, down);
  const live = {
    update(ends) {
      const end = ends.find((each) => each.host === spot.host && each.interface === spot.interface);
      setShown(down, end?.up === false);
    },
  };
  if (!spot.label) return live;
  const label = svg("text", {
    x: spot.label.x,
    y: spot.label.y,
    class: "xdp-small xdp-muted",
    "text-anchor": spot.label.anchor,
  });
  setFitted(label, spot.interface, spot.label.room ?? 90, font(FONTS.small));
  layer.append(label);
  return live;
}

function buildLink(layer, link, font) {
  const d = `M${link.points.map((p) => p.join(" ")).join("L")}`;
  const wire = svg("path", { d, class: "xdp-wire" });
  const heads = [arrowHead(link.points), arrowHead([...link.points].reverse())];
  const flow = makeFlow(link.points);
  const labels = [link.label, link.back].map((at) =>
    svg("text", { x: at.x, y: at.y, class: "xdp-rate", "text-anchor": at.anchor }),
  );
  layer.append(wire, ...heads, flow.group, ...labels);
  const marks = buildLosses(layer, { ...link.loss, limit: Infinity }, font);
  const lower = link.loss.anchor === "middle" && link.loss.y < link.back.y + 10 ? 18 : 0;
  const [[x1, y1], [x2, y2]] = link.points;
  const arrows = Math.abs(x2 - x1) > Math.abs(y2 - y1) ? ["→ ", "← "] : ["↓ ", "↑ "];
  if (x2 < x1 || y2 < y1) arrows.reverse();
  return {
    index: link.index,
    flow,
    update({ pps_ab: ab = 0, pps_ba: ba = 0 }, losses) {
      const live = [ab > QUIET_PPS, ba > QUIET_PPS];
      const both = live[0] && live[1];
      const words = (pps, way) => `${both ? arrows[way] : ""}${formatRate(pps)}`;
      setText(labels[0], live[0] ? words(ab, 0) : live[1] ? words(ba, 1) : "");
      setText(labels[1], both ? words(ba, 1) : "");
      heads.forEach((head, i) => setShown(head, live[i]));
      setAttribute(wire, "class", live[0] || live[1] ? "xdp-wire xdp-live" : "xdp-wire");
      flow.set(ab, ba);
      marks.update(losses, both ? lower : 0);
    },
  };
}

/** An arrow just before the interface that the path ends in. */
function arrowHead(points) {
  const [[x1, y1], [x2, y2]] = points.slice(-2);
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  return svg(
    "g",
    { transform: `translate(${x2} ${y2}) rotate(${angle})`, display: "none" },
    svg("path", { d: "M-17 -4.5L-8 0L-17 4.5z", class: "xdp-head" }),
  );
}

/** Up to three lines "◆ ring full 1.91 Mpps lost", cut to `room` in the name, kept left of `limit`. */
function buildLosses(layer, { x, y, anchor, room, limit }, font) {
  const small = font(FONTS.text);
  const rows = [0, 1, 2].map((i) => {
    const text = svg("text", { y: y + 18 * i, class: "xdp-text xdp-loss" });
    const mark = svg("path", { d: "M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z", class: "xdp-diamond" });
    const group = svg("g", { display: "none" }, mark, text);
    layer.append(group);
    return { group, mark, text, y: y + 18 * i - 4 };
  });
  return {
    update(losses, lower = 0) {
      rows.forEach(({ group, mark, text, y: middle }, i) => {
        const loss = losses[i];
        setShown(group, Boolean(loss));
        if (!loss) return;
        const amount = lossAmount(loss, i === 2 ? losses.length - 3 : 0);
        const rest = textWidth(digitless(` ${amount}`), small);
        const span = Math.min(room - 14, textWidth(loss.name, small) + rest);
        const left = Math.round(Math.min(anchor === "middle" ? x - span / 2 : x + 14, limit - span));
        setAttribute(group, "transform", `translate(0 ${lower})`);
        setAttribute(mark, "transform", `translate(${left - 10} ${middle})`);
        setAttribute(text, "x", left);
        setFitted(text, loss.name, span - rest + 1, small, ` ${amount}`);
      });
    },
  };
}

function lossAmount({ pps, packets }, more) {
  const amount = pps > QUIET_PPS ? `${formatRate(pps)} lost` : packets > 0 ? `${formatCount(packets)} lost` : "";
  return `${amount}${more > 0 ? `, and ${more} more` : ""}`;
}

/** The same text with all digits alike, as they are drawn: it measures the same from tick to tick. */
function digitless(text) {
  return text.replace(/\d/g, "0");
}

/** A program above its interface: name, mode and id; the mix of its verdicts as a bar and in words. */
function buildBadge(layer, { host, interface: name, x, y, w, leader }, font) {
  const inner = w - 20;
  const title = svg("text", { x: x + 10, y: y + 17, class: "xdp-strong" });
  const meta = svg("text", { x: x + w - 10, y: y + 17, class: "xdp-small xdp-muted", "text-anchor": "end" });
  const words = svg("text", { x: x + 10, y: y + 44, class: "xdp-small" });
  const bars = [...VERDICTS, "other"].map((v) =>
    svg("rect", { y: y + 24, height: 6, rx: 2, width: 0, class: `xdp-fill-${VERDICT_ROLE[v] ?? "muted"}` }),
  );
  const tip = svg("title");
  const box = svg("rect", { x, y, width: w, height: BADGE.height, rx: 8, class: "xdp-badge" }, tip);
  const track = svg("rect", { x: x + 10, y: y + 24, width: inner, height: 6, rx: 3, class: "xdp-track" });
  if (leader) {
    const [x1, y1, x2, y2] = leader;
    layer.append(svg("line", { x1, y1, x2, y2, class: "xdp-leader" }));
  }
  layer.append(box, track, ...bars, title, meta, words);
  return {
    host,
    interface: name,
    update(program) {
      if (!program) return;
      const facts = [program.mode, `#${program.id}`].filter(Boolean).join(" · ");
      // Where the name and the facts don't go together, the name has the better claim.
      const full = textWidth(program.name, font(FONTS.strong, 700)) + textWidth(facts, font(FONTS.small)) + 8 <= inner;
      const brief = full || inner > 190 ? facts : `#${program.id}`;
      setText(meta, brief);
      setFitted(title, program.name, inner - textWidth(brief, font(FONTS.small)) - 8, font(FONTS.strong, 700));
      setText(
        tip,
        [`${program.name} on ${host} ${name}`, facts, program.tag && `tag ${program.tag}`, program.note]
          .filter(Boolean)
          .join(", "),
      );
      const mix = verdictMix(program);
      let left = x + 10;
      bars.forEach((bar, i) => {
        const span = (mix[i]?.share ?? 0) * inner;
        setAttribute(bar, "x", left.toFixed(1));
        setAttribute(
          bar,
          "width",
          Math.max(0, span - (span > 4 && left + span < x + 10 + inner - 1 ? 2 : 0)).toFixed(1),
        );
        left += span;
      });
      const named = mix.filter((v) => v.share > 0).sort((a, b) => b.share - a.share);
      const verdicts = named.map((v) => `${v.name} ${formatShare(v.share, 0)}`).join(", ");
      setFitted(words, verdicts || program.note || "no packet yet", inner, font(FONTS.small));
    },
  };
}

/** Shares of the verdicts: of those given just now, or of all where it is quiet. */
function verdictMix({ verdicts = {}, verdict_pps: now = {} }) {
  const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
  const counts = sum(now) > QUIET_PPS ? now : verdicts;
  const total = sum(counts);
  if (!total) return [];
  const mix = VERDICTS.map((name) => ({ name, share: (counts[name] ?? 0) / total }));
  const rest = Object.keys(counts).filter((name) => !VERDICTS.includes(name));
  const share = rest.reduce((a, name) => a + counts[name], 0) / total;
  return [...mix, { name: rest.length === 1 ? rest[0] : "other", share }];
}
