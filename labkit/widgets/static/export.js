// Taking it along: the rates and the ledger as CSV, the picture as PNG. Made here, without any network.

/** The text of a CSV file, as in RFC 4180; a cell that a spreadsheet would take for a formula is quoted with '. */
function toCsv(rows) {
  const cell = (value) => {
    const plain = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t]/.test(plain) ? `'${plain}` : plain;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** Every row of the ledger, then every rate that the chart holds: one table each, a blank line between. */
function exportRows(ledger, history) {
  const fates = (ledger?.rows ?? []).map((row) => [row.kind, row.name, row.where ?? "", row.packets, row.share]);
  return [
    ["kind", "what became of it", "where", "packets", "share"],
    ...fates,
    ["unaccounted", "unaccounted", "", ledger?.unaccounted, ""],
    [],
    ["seconds ago", ...history.names.map((name) => `${name} (packets a second)`)],
    ...history.rows,
  ];
}

function saveFile(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = html("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "display",
  "font-size", "font-weight", "font-family", "text-anchor", "opacity"];

/** A drawing of the page as a picture of its own: what the page's style says is written into it. */
function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const [from, to] = [drawing.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    to[i].setAttribute("style", DRAWN.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  for (const place of copy.querySelectorAll(".xdp-place")) place.remove();
  copy.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(copy);
}

/** A PNG of the drawings under one another with a title above, twice as fine as on the page. */
async function toPng(root, drawings, title) {
  const style = getComputedStyle(root);
  const images = await Promise.all(
    drawings.map(async (drawing) => {
      const image = new Image();
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(drawing))}`;
      await image.decode();
      return [image, Number(drawing.getAttribute("width")), Number(drawing.getAttribute("height"))];
    }),
  );
  const [edge, fine] = [16, 2];
  const width = Math.max(...images.map(([, w]) => w)) + 2 * edge;
  const height = images.reduce((sum, [, , h]) => sum + h + edge, 2 * edge + 12);
  const canvas = html("canvas", { width: width * fine, height: height * fine });
  const brush = canvas.getContext("2d");
  brush.scale(fine, fine);
  brush.fillStyle = style.getPropertyValue("--xdp-bg");
  brush.fillRect(0, 0, width, height);
  brush.fillStyle = style.getPropertyValue("--xdp-fg");
  brush.font = `600 13px ${style.fontFamily}`;
  brush.fillText(title, edge, edge + 12);
  let y = 2 * edge + 12;
  for (const [image, w, h] of images) {
    brush.drawImage(image, edge, y, w, h);
    y += h + edge;
  }
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
