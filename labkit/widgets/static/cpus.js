// Which CPU the programs ran on: a bar and a line for each, from the programs' own counts.

/** The table; {node, update(rows)}. A bar is the CPU's part of what its program counted. */
function makeCpus() {
  const body = html("tbody");
  const head = ["program", "CPU", "packets", "part", "verdicts", "per second"].map((text, i) =>
    html("th", { scope: "col", class: i === 2 || i === 5 ? "xdp-n" : undefined }, text),
  );
  const table = html(
    "table",
    { class: "xdp-ledger xdp-moved" },
    html("caption", {}, "By CPU: where the kernel ran the programs"),
    html("thead", {}, html("tr", {}, ...head)),
    body,
  );
  const words = "Of the lab's programs alone. /proc/net/softnet_stat is of the whole machine, and isn't shown.";
  const node = html("div", {}, html("div", { class: "xdp-wide", tabindex: 0, role: "group", "aria-label": "Table by CPU" }, table), html("p", { class: "xdp-notes" }, words));
  const rows = new Map();

  function rowFor({ program, where, cpu }, key) {
    let row = rows.get(key);
    if (!row) {
      const cells = ["xdp-n", "xdp-part", "", "xdp-n"].map((kind) => html("td", { class: kind || undefined }));
      const [fill, share] = [html("i", { class: "xdp-fill-redirect" }), html("span")];
      cells[1].append(html("span", { class: "xdp-bar", "aria-hidden": "true" }, fill), share);
      row = {
        node: html("tr", {}, html("th", { scope: "row", title: where }, `${program}, ${where}`), html("td", {}, String(cpu)), ...cells),
        packets: cells[0], fill, share, verdicts: cells[2], pps: cells[3],
      };
      rows.set(key, row);
    }
    return row;
  }

  return {
    node,
    update(ran) {
      const keyOf = (one) => `${one.program}\n${one.where}\n${one.number}\n${one.cpu}`;
      const totals = new Map();
      for (const { number, packets } of ran) totals.set(number, (totals.get(number) ?? 0) + packets);
      const seen = new Set(ran.map(keyOf));
      for (const one of ran) {
        const row = rowFor(one, keyOf(one));
        if (!row.node.isConnected) body.append(row.node);
        const share = one.packets / totals.get(one.number);
        setText(row.packets, formatCount(one.packets));
        setText(row.share, formatShare(share));
        setAttribute(row.fill, "style", `flex:0 0 ${(100 * share).toFixed(1)}%`);
        setText(row.verdicts, Object.entries(one.verdicts).map(([name, n]) => `${name} ${formatCount(n)}`).join(", "));
        setText(row.pps, formatRate(one.pps));
      }
      for (const [key, row] of rows) {
        if (seen.has(key)) continue;
        row.node.remove();
        rows.delete(key);
      }
      setShown(node, seen.size > 0);
    },
  };
}
