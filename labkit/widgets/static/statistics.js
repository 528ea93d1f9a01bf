// The statistics of the interfaces, only what changed: asked for, and sent, while somebody looks.

/** Draws into `box`; `ask(open)` is told when it is opened or closed. Returns {update(rows, rows of CPUs)}. */
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
  const queues = makeQueues();
  const cpus = makeCpus();
  const details = html(
    "details",
    { class: "xdp-statistics" },
    html("summary", { ...OWN_KEYS }, "Statistics of the interfaces, only what changed"),
    html("div", { class: "xdp-wide", tabindex: 0, role: "group", "aria-label": "Table of the statistics" }, table),
    queues.node,
    cpus.node,
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

  function update(moved, ran) {
    if (!details.open) return;
    queues.update(moved ?? []);
    cpus.update(ran ?? []);
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

const QUEUE = /^(rx|tx)_queue_(\d+)_(?:xdp_)?(packets|drops|xmit|redirect|tx)$/;
const QUEUE_WORDS = { packets: "packets", drops: "dropped", xmit: "sent by XDP", redirect: "redirected", tx: "sent back" };

/** The same per queue, one line each: which of several queues does the work. */
function makeQueues() {
  const body = html("tbody");
  const head = ["interface", "queue", "counted", "per second"].map((text, i) =>
    html("th", { scope: "col", class: i > 2 ? "xdp-n" : undefined }, text),
  );
  const caption = html("caption", {}, "By queue");
  const table = html("table", { class: "xdp-ledger xdp-moved" }, caption, html("thead", {}, html("tr", {}, ...head)), body);
  const rows = new Map();
  return {
    node: table,
    update(moved) {
      const found = new Map();
      for (const { where, name, by, ps } of moved) {
        const [, side, number, what] = QUEUE.exec(name) ?? [];
        if (!side) continue;
        const key = `${where}\n${side} ${number}`;
        const one = found.get(key) ?? { words: [], ps: 0 };
        one.words.push(`${formatCount(by)} ${QUEUE_WORDS[what]}`);
        one.ps = Math.max(one.ps, ps);
        found.set(key, one);
      }
      for (const [key, { words, ps }] of found) {
        let row = rows.get(key);
        if (!row) {
          const [where, queue] = key.split("\n");
          const [counted, rate] = [html("td"), html("td", { class: "xdp-n" })];
          row = { row: html("tr", {}, html("th", { scope: "row" }, where), html("td", {}, queue), counted, rate), counted, rate };
          rows.set(key, row);
          body.append(row.row);
        }
        setText(row.counted, words.join(", "));
        setText(row.rate, formatRate(ps));
      }
      for (const [key, { row }] of rows) {
        if (found.has(key)) continue;
        row.remove();
        rows.delete(key);
      }
      setShown(table, found.size > 0);
    },
  };
}
