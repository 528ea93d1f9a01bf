// What compiler and verifier said: each remark with its line, meaning and remedy; registers; the whole log, folded.

/** Draws into `box`; `go(line, column)` shows a line of the text. */
function makeSaid(box, go) {
  const headline = html("p", { class: "ed-headline" });
  const list = html("ol", { class: "ed-remarks" });
  const registers = html("details", { class: "ed-fold ed-registers", open: true });
  const maps = html("div", { class: "ed-maps" });
  const log = html("details", { class: "ed-fold" });
  box.append(headline, list, registers, maps, log);

  return {
    show({ kind = "", headline: words = "", remarks = [], registers: rows = [], code = "", log: text = "", maps: fates = [] }, waiting) {
      setText(headline, waiting || (kind === "bad" ? `✗ ${words}` : kind === "good" ? `✓ ${words}` : words));
      setAttribute(headline, "class", `ed-headline ${waiting ? "" : { bad: "xdp-bad", good: "xdp-good" }[kind] ?? ""}`);
      list.replaceChildren(...remarks.map((remark) => makeRemark(remark, go)));
      setShown(list, remarks.length > 0);
      registers.replaceChildren(...(rows.length ? registerTable(rows, code, go) : []));
      setShown(registers, rows.length > 0);
      maps.replaceChildren(...(fates.length ? [mapTable(fates)] : []));
      setShown(maps, fates.length > 0);
      log.open = false;
      log.replaceChildren(
        html("summary", { ...OWN_KEYS }, `The whole log, ${text.split("\n").length} lines`),
        html("pre", { class: "ed-log", tabindex: "0", "aria-label": "The whole log" }, text),
      );
      setShown(log, Boolean(text));
    },
    stale(old) {
      box.classList.toggle("ed-stale", old);
    },
  };
}

function lineButton(line, column, go) {
  const button = html("button", { ...OWN_KEYS, type: "button", class: "ed-goto" }, `Line ${line}`);
  button.addEventListener("click", () => go(line, column));
  return button;
}

function makeRemark(remark, go) {
  const { kind, said, line, column, header, meaning, remedy, notes } = remark;
  // A sentence begins with a capital, but for one that begins with a name of the text's own.
  const own = (words) => said.includes(words.split(" ")[0]);
  const sentence = (words) => (own(words) ? words[0] : words[0].toUpperCase()) + words.slice(1) + (/[.!?…:;]$/.test(words) ? "" : ".");
  const item = html("li", { class: `ed-remark ed-remark-${kind}` });
  const head = html("p", { class: "ed-remark-head" }, html("b", {}, kind === "error" ? "✗ Error" : "! Warning"));
  if (line) head.append(lineButton(line, column, go));
  if (header) head.append(html("span", { class: "xdp-muted" }, line ? `by way of ${header}` : `in ${header}`));
  item.append(head);
  if (meaning) item.append(html("p", { class: "ed-meaning" }, sentence(meaning)));
  if (remedy) item.append(html("p", {}, html("b", {}, "Remedy: "), sentence(remedy)));
  item.append(html("p", { class: "ed-verbatim" }, html("span", {}, "Its own words: "), html("code", {}, said)));
  for (const note of notes) item.append(html("p", { class: "ed-verbatim" }, html("code", {}, note)));
  return item;
}

function table(caption, head, rows) {
  return html(
    "div",
    { class: "ed-scroll", tabindex: "0", role: "region", "aria-label": caption },
    html(
      "table",
      { class: "xdp-ledger ed-table" },
      html("caption", { class: "xdp-hidden" }, caption),
      html("thead", {}, html("tr", {}, ...head.map((text) => html("th", { scope: "col" }, text)))),
      html("tbody", {}, ...rows),
    ),
  );
}

function registerTable(rows, code, go) {
  const body = rows.map(({ name, state, words, named, line, text }) => {
    const origin = html("td", {});
    if (line) origin.append(lineButton(line, 1, go));
    origin.append(html("code", {}, text.trim() || (line ? "" : "as the program was called")));
    return html(
      "tr",
      { class: named ? "ed-named" : undefined },
      html("th", { scope: "row" }, named ? `▸ ${name}` : name),
      html("td", {}, words, html("code", { class: "ed-state" }, state)),
      origin,
    );
  });
  const about = html("p", { class: "xdp-notes ed-about" });
  if (code) about.append("It stopped at the instruction ", html("code", {}, code), ". A register marked ▸ takes part in it.");
  return [
    html("summary", { ...OWN_KEYS }, "What the registers held there"),
    ...(code ? [about] : []),
    table("Registers where the verifier stopped", ["register", "what it holds", "set by"], body),
  ];
}

function mapTable(fates) {
  const rows = fates.map(({ name, fate, why }) =>
    html("tr", {}, html("th", { scope: "row" }, name), html("td", { class: fate === "goes on" ? "xdp-good" : "ed-lost" }, fate), html("td", {}, why)),
  );
  return table("What became of the maps", ["map", "its contents", "why"], rows);
}

/** What a screen reader hears: the outcome, and the first thing to look at. */
function statusOf({ headline, remarks }) {
  const first = remarks[0];
  if (!first) return headline;
  return `${headline} ${first.line ? `Line ${first.line}: ` : ""}${first.meaning || first.said}`;
}
