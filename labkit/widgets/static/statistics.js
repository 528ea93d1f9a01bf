// The statistics of the interfaces, only what changed: asked for, and sent, while somebody looks.

/** Draws into `box`; `ask(open)` is told when it is opened or closed. Returns {update(rows)}. */
function makeStatistics(box, ask) {
  const head = html(
    "tr",
    {},
    ...["interface", "of", "counter", "since reset", "per second"].map((text, i) =>
      html("th", { scope: "col", class: i > 2 ? "xdp-n" : undefined }, text),
    ),
  );
  const body = html("tbody");
  const empty = html("p", { class: "xdp-notes" }, "No counter has moved since the reset.");
  const table = html("table", { class: "xdp-ledger xdp-moved" }, html("thead", {}, head), body);
  const details = html(
    "details",
    { class: "xdp-statistics" },
    html("summary", { ...OWN_KEYS }, "Statistics of the interfaces, only what changed"),
    table,
    empty,
  );
  box.append(details);
  details.addEventListener("toggle", () => ask(details.open));
  const rows = new Map();

  function rowFor(key) {
    let row = rows.get(key);
    if (!row) {
      const [by, ps] = [html("td", { class: "xdp-n" }), html("td", { class: "xdp-n" })];
      const [where, of, name] = key.split("\n");
      row = { row: html("tr", {}, html("th", { scope: "row" }, where), html("td", {}, of), html("td", {}, name), by, ps), by, ps };
      rows.set(key, row);
    }
    return row;
  }

  function update(moved) {
    if (!details.open) return;
    const seen = new Set();
    for (const one of moved ?? []) {
      const key = `${one.where}\n${one.of}\n${one.name}`;
      seen.add(key);
      const row = rowFor(key);
      if (!row.row.isConnected) body.append(row.row);
      setText(row.by, formatCount(one.by));
      setText(row.ps, formatCount(one.ps));
    }
    for (const [key, row] of rows) {
      if (seen.has(key)) continue;
      row.row.remove();
      rows.delete(key);
    }
    setShown(table, seen.size > 0);
    setShown(empty, seen.size === 0);
  }

  return { update, isOpen: () => details.open };
}
