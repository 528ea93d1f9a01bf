// Jumps as arrows at the left margin of the instructions: each in a lane of its own, as long as others go past it.

const LANE = 9; // pixels
const MOST_LANES = 9; // farther jumps share the last one

/** Lanes for jumps [{from, to}], the short ones innermost: the same, each with its `lane`. */
function laneJumps(jumps) {
  const ends = [];
  const sorted = jumps.map((jump) => ({ ...jump, top: Math.min(jump.from, jump.to), end: Math.max(jump.from, jump.to) }));
  sorted.sort((a, b) => a.end - a.top - (b.end - b.top));
  for (const jump of sorted) {
    jump.lane = ends.findIndex((taken) => taken.every(([top, end]) => jump.top > end || jump.end < top));
    if (jump.lane < 0) jump.lane = Math.min(ends.length, MOST_LANES - 1);
    (ends[jump.lane] ??= []).push([jump.top, jump.end]);
  }
  return sorted;
}

/** Draws them into `art`; `rows` are the list's elements, `at` the place of each slot in them. */
function drawJumps(art, rows, jumps) {
  const middle = (i) => rows[i].offsetTop + rows[i].offsetHeight / 2;
  const last = rows[rows.length - 1];
  const height = last ? last.offsetTop + last.offsetHeight : 0;
  const lanes = Math.max(1, ...jumps.map((jump) => jump.lane + 1));
  const width = lanes * LANE + 12;
  setAttribute(art, "width", width);
  setAttribute(art, "height", height);
  art.replaceChildren(
    ...jumps.map((jump) => {
      const [x, y, z] = [width - 8 - (jump.lane + 0.5) * LANE, middle(jump.from) + 3, middle(jump.to) - 3];
      const line = `M${width - 4} ${y} H${x} V${z} H${width - 4}`;
      const head = `M${width - 8} ${z - 3.5} L${width - 2} ${z} L${width - 8} ${z + 3.5} Z`;
      const node = svg("g", { class: "bc-jump" }, svg("path", { class: "bc-way", d: line }), svg("path", { class: "bc-tip", d: head }));
      node.dataset.from = jump.from;
      node.dataset.to = jump.to;
      return node;
    }),
  );
  return width;
}
