// The ledger as a table: what became of every packet. It is also the picture's equal in words.

/** Draws into `box`; returns {update(ledger)}. */
function makeLedger(box, words = "Ledger: every packet since reset") {
  const bar = html("div", { class: "xdp-bar", "aria-hidden": "true" });
  const head = html(
    "tr",
    {},
    ...["what became of it", "where", "packets", "share"].map((text, i) =>
      html("th", { scope: "col", class: i > 1 ? "xdp-n" : undefined }, text),
    ),
  );
  const body = html("tbody");
  const total = makeRow();
  total.row.className = "xdp-sum";
  const foot = html("tfoot", {}, total.row);
  const table = html(
    "table",
    { class: "xdp-ledger" },
    html("caption", {}, words),
    html("thead", {}, head),
    body,
    foot,
  );
  const why = html("p", { class: "xdp-why" });
  box.append(table, why);
  table.querySelector("caption").append(bar);
  const rows = new Map();

  function rowFor(key) {
    let row = rows.get(key);
    if (!row) {
      row = makeRow();
      row.piece = html("i");
      rows.set(key, row);
    }
    return row;
  }

  function update(ledger) {
    const listed = ledger?.rows ?? [];
    const used = new Map();
    const seen = new Set();
    for (const one of listed) {
      if (one.kind === "unaccounted") continue;
      const key = `${one.kind}\n${one.name}\n${one.where}`;
      seen.add(key);
      const row = rowFor(key);
      if (!row.row.isConnected) body.append(row.row);
      const role = one.role || "muted";
      const sent = one.kind === "sent";
      const nth = used.get(role) ?? 0;
      if (!sent) used.set(role, nth + 1);
      const look = `xdp-fill-${role}${nth % 2 ? " xdp-hatched" : ""}`;
      setAttribute(row.row, "class", sent ? "xdp-sum" : one.packets ? "" : "xdp-nil");
      setAttribute(row.swatch, "class", sent ? "xdp-none" : `xdp-swatch ${look}`);
      setAttribute(row.row, "title", one.explains || null);
      setText(row.name, one.name);
      setText(row.where, one.where ?? "");
      setText(row.packets, formatCount(one.packets));
      setText(row.share, formatShare(one.share));
      if (!sent && !row.piece.isConnected) bar.append(row.piece);
      setAttribute(row.piece, "class", look);
      setAttribute(row.piece, "style", `flex-grow:${Math.max(0, one.packets) || 0}`);
    }
    for (const [key, row] of rows) {
      if (seen.has(key)) continue;
      row.row.remove();
      row.piece.remove();
      rows.delete(key);
    }
    updateTotal(ledger);
  }

  function updateTotal(ledger) {
    const missing = ledger?.unaccounted;
    const known = Number.isFinite(missing);
    const settling = known && missing !== 0 && ledger.settled === false;
    const state = !known || settling ? "xdp-open" : missing === 0 ? "xdp-right" : "xdp-wrong";
    setAttribute(total.row, "class", `xdp-sum ${state}`);
    setText(
      total.name,
      { "xdp-open": "unaccounted", "xdp-right": "unaccounted ✓", "xdp-wrong": "unaccounted ✗" }[state],
    );
    setText(total.where, settling ? "still counting" : "");
    setText(total.packets, formatCount(missing));
    const words =
      state !== "xdp-wrong"
        ? ""
        : missing > 0
          ? `${formatCount(missing)} packets were sent and no counter says where they went. ${ledger.why ?? ""}`
          : `${formatCount(-missing)} packets were counted twice, or came from outside the lab. ${ledger.why ?? ""}`;
    setText(why, words.trim());
    setShown(why, words !== "");
  }

  return { update };
}

function makeRow() {
  const swatch = html("i", { class: "xdp-none", "aria-hidden": "true" });
  const [name, where, packets, share] = [
    html("span"),
    html("td"),
    html("td", { class: "xdp-n" }),
    html("td", { class: "xdp-n" }),
  ];
  return {
    row: html("tr", {}, html("th", { scope: "row" }, swatch, name), where, packets, share),
    swatch,
    name,
    where,
    packets,
    share,
  };
}
