// One ring as a ring, with both positions going round; and the memory as one bar that is always full.

const RING = { box: 132, middle: 66, radius: 46, width: 15 };
const FEW_SLOTS = 32;
const PLACE_WORDS = { kernel: "in the kernel", program: "with the program", free: "free" };

/** A ring: {node, update(ring)}. Its name, who puts in and who takes out never change. */
function makeRing({ name, size, puts, takes }) {
  const { box, middle, radius, width } = RING;
  const circle = (attributes) => svg("circle", { cx: middle, cy: middle, r: radius, fill: "none", "stroke-width": width, ...attributes });
  const around = 2 * Math.PI * radius;
  const arc = circle({ class: `rg-arc rg-stroke-${name}`, transform: `rotate(-90 ${middle} ${middle})` });
  const put = svg("path", { class: "rg-pointer", d: `M${middle} ${middle - radius - width / 2 - 1}l-5 -8h10z` });
  const take = svg("path", { class: "rg-pointer", d: `M${middle} ${middle - radius + width / 2 + 9}l-5 -8h10z` });
  const filled = svg("text", { class: "rg-filled", x: middle, y: middle + 1, "text-anchor": "middle" });
  const art = svg(
    "svg",
    { viewBox: `0 0 ${box} ${box}`, width: box, height: box, "aria-hidden": "true" },
    circle({ class: "rg-track" }),
    arc,
    ...slots(size),
    put,
    take,
    filled,
    svg("text", { class: "rg-of", x: middle, y: middle + 16, "text-anchor": "middle" }, `of ${formatCount(size)}`),
  );
  const positions = html("div", { class: "rg-positions xdp-muted" });
  const wake = html("div", { class: "rg-positions xdp-muted" });
  const node = html("div", { class: "rg-ring" }, art, html("b", {}, name), html("div", { class: "xdp-muted" }, `${puts} → ${takes}`), positions, wake);
  const turn = (pointer, position) => setAttribute(pointer, "style", `transform: rotate(${((position / size) * 360).toFixed(2)}deg)`);
  return {
    node,
    update(ring) {
      const length = (around * ring.filled) / size;
      setAttribute(arc, "stroke-dasharray", `${length.toFixed(2)} ${(around - length).toFixed(2)}`);
      setAttribute(arc, "stroke-dashoffset", (-around * (ring.consumer % size)) / size);
      setAttribute(arc, "visibility", ring.filled ? null : "hidden");
      turn(put, ring.producer);
      turn(take, ring.consumer);
      setText(filled, formatCount(ring.filled));
      setText(positions, `in ${formatCount(ring.producer)} · out ${formatCount(ring.consumer)}`);
      setText(wake, ring.wake ? "the kernel waits for a kick" : "");
    },
  };
}

/** Lines between the entries, where there are few. */
function slots(size) {
  if (size > FEW_SLOTS) return [];
  const { middle, radius, width } = RING;
  const from = middle - radius - width / 2;
  return Array.from({ length: size }, (_, i) =>
    svg("path", { class: "rg-slot", d: `M${middle} ${from}v${width}`, transform: `rotate(${(360 * i) / size} ${middle} ${middle})` }),
  );
}

/** The memory's frames by place, and their sum in words: {node, update(places, frames)}. */
function makeMemory() {
  const bar = html("div", { class: "rg-bar", "aria-hidden": "true" });
  const rows = html("tbody");
  const sum = html("p", { class: "rg-sum xdp-muted" });
  const table = html(
    "table",
    { class: "rg-places" },
    html("caption", { class: "xdp-hidden" }, "Where the memory's frames are"),
    rows,
  );
  const made = new Map();
  function one(place) {
    const known = made.get(place);
    if (known) return known;
    const words = PLACE_WORDS[place] ?? (place.includes(",") ? place : `${place} ring`);
    const key = place.includes(",") ? "kernel" : place;
    const count = html("td");
    const parts = { part: html("div", { class: `rg-part rg-${key}` }), count };
    made.set(place, parts);
    bar.append(parts.part);
    rows.append(html("tr", {}, html("th", { scope: "row" }, html("span", { class: `rg-swatch rg-${key}`, "aria-hidden": "true" }), words), count));
    return parts;
  }
  return {
    node: html("div", { class: "rg-memory" }, bar, html("div", { class: "rg-below" }, table, sum)),
    update(places, frames) {
      for (const [place, number] of places) {
        const { part, count } = one(place);
        setAttribute(part, "style", `flex-grow: ${number}`);
        setText(count, formatCount(number));
      }
      const all = places.map(([, number]) => number);
      const total = all.reduce((a, b) => a + b, 0);
      setText(sum, `${all.filter(Boolean).map(formatCount).join(" + ") || "0"} = ${formatCount(total)} frames, the whole memory`);
      sum.classList.toggle("xdp-bad", total !== frames);
    },
  };
}
