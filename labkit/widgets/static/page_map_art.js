// A place with a square for each page, or for some: full where the page is at home, hollow where it is away.

const SQUARES = { columns: 16, rows: 5, edge: 7, step: 9 };
const ROOM = SQUARES.columns * SQUARES.rows;

/** How many pages a square stands for, so that `most` of them have room: 1, 2, 5, 10, 20, 50 … */
function squareOf(most) {
  let size = 1;
  while (most > size * ROOM) size = String(size)[0] === "2" ? (size * 5) / 2 : size * 2;
  return size;
}

/** One place: {node, update(spot, each)}. Its name and side never change. */
function makeSpot({ name, side, says }) {
  const { columns, rows, step, edge } = SQUARES;
  const count = html("b", { class: "pm-count" });
  const marks = svg("path", { class: side === "at home" ? "pm-home" : "pm-away" });
  const art = svg("svg", { class: "pm-squares", viewBox: `0 0 ${columns * step} ${rows * step}`, "aria-hidden": "true" }, marks);
  const node = html("div", { class: "pm-spot", title: says }, html("div", { class: "pm-name" }, html("span", {}, name), count), art);
  return {
    node,
    update(spot, each) {
      setText(count, formatCount(spot.pages ?? NaN));
      const squares = Math.min(Math.ceil((spot.pages ?? 0) / each), ROOM);
      let path = "";
      for (let i = 0; i < squares; i++) {
        path += `M${(i % columns) * step + 1} ${Math.floor(i / columns) * step + 1}h${edge}v${edge}h-${edge}z`;
      }
      setAttribute(marks, "d", path);
      node.classList.toggle("pm-empty", !spot.pages);
    },
  };
}

/** The pools as a table: {node, update(pools, more)}. */
function makePools() {
  const rows = html("tbody");
  const more = html("p", { class: "xdp-muted pm-more" });
  const head = ["page pool", "held", "released", "at home", "away", "state"].map((words) => html("th", { scope: "col" }, words));
  const table = html("table", { class: "xdp-ledger pm-pools" }, html("caption", {}, "Page pools alive"), html("thead", {}, html("tr", {}, ...head)), rows);
  const made = [];
  return {
    node: html("div", { class: "pm-below", tabindex: "0", role: "region", "aria-label": "Page pools" }, table, more),
    update(pools, rest) {
      while (made.length < pools.length) {
        const cells = [html("th", { scope: "row" }), ...Array.from({ length: 5 }, () => html("td"))];
        made.push(cells);
        rows.append(html("tr", {}, ...cells));
      }
      made.forEach((cells, i) => setShown(cells[0].parentElement, i < pools.length));
      pools.forEach((pool, i) => pool.forEach((value, j) => setText(made[i][j], typeof value === "number" ? formatCount(value) : value)));
      setText(more, rest);
    },
  };
}
