// A frame's bytes in rows of sixteen beside its fields: a cursor by mouse or keyboard, and a byte to change and replay.

const ROW = 16;

/** Draws into the parts; `edited(offset, hex)` is called for a byte that is to be changed. */
function makeBytes({ grid, fields, about, editor, input, replay }, edited) {
  let detail = { hex: "", fields: [], reads: [], decided: [], changed: [] };
  let at = 0;
  let cells = [];
  let rows = [];

  const within = (spans, i) => spans.some(([first, length]) => i >= first && i < first + length);
  const value = (i) => detail.hex.slice(2 * i, 2 * i + 2);
  const fieldsAt = (i) => detail.fields.filter(([, , first, length]) => i >= first && i < first + length);

  function draw(next, editable) {
    const same = next.hex === detail.hex;
    detail = { fields: [], reads: [], decided: [], changed: [], ...next };
    if (!same) at = detail.decided?.[0]?.[0] ?? 0;
    const held = grid.contains(document.activeElement);
    const count = (detail.hex ?? "").length / 2;
    cells = Array.from({ length: count }, (_, i) => makeCell(i));
    const lines = [];
    for (let i = 0; i < count; i += ROW)
      lines.push(
        html("div", { role: "row", class: "fi-row" }, html("span", { role: "rowheader", class: "fi-at" }, String(i)), ...cells.slice(i, i + ROW)),
      );
    grid.replaceChildren(...lines);
    rows = detail.fields.map(makeField);
    const headed = rows.flatMap((row, i) => (detail.fields[i][0] === detail.fields[i - 1]?.[0] ? [row] : [makeHead(detail.fields[i][0]), row]));
    fields.replaceChildren(...headed);
    editor.disabled = !editable || !count;
    go(Math.min(at, Math.max(0, count - 1)), held);
  }

  function makeCell(i) {
    const names = ["fi-byte"];
    const said = [];
    if (within(detail.reads, i)) {
      names.push("fi-read");
      said.push("read by the program");
    }
    if (within(detail.decided, i)) {
      names.push("fi-decided");
      said.push("the verdict hangs on it");
    }
    if (detail.changed.includes(i)) {
      names.push("fi-changed");
      said.push("rewritten by the program");
    }
    const what = fieldsAt(i).map(([part, name]) => `${part} ${name}`);
    const label = [`byte ${i}`, value(i), ...what, ...said].join(", ");
    const cell = html("span", { ...OWN_KEYS, role: "gridcell", class: names.join(" "), tabindex: "-1", "aria-label": label }, value(i));
    cell.addEventListener("click", () => go(i, true));
    return cell;
  }

  const makeHead = (part) => html("tr", { class: "fi-part" }, html("th", { scope: "rowgroup", colspan: "3" }, part));

  function makeField([part, name, first, length, , shown, meaning, read]) {
    const row = html(
      "tr",
      { class: read ? "fi-field fi-field-read" : "fi-field" },
      html("th", { scope: "row", title: `${part} ${name}` }, name, ...(read ? [html("span", { class: "fi-tag" }, "read")] : [])),
      html("td", { class: "fi-where" }, length > 1 ? `${first}–${first + length - 1}` : String(first)),
      html("td", { title: meaning }, shown),
    );
    row.addEventListener("click", () => go(first, false));
    return row;
  }

  /** Moves the cursor. */
  function go(to, focus) {
    if (!cells.length) return setText(about, "");
    setAttribute(cells[at] ?? cells[0], "tabindex", "-1");
    at = Math.max(0, Math.min(cells.length - 1, to));
    setAttribute(cells[at], "tabindex", "0");
    if (focus) cells[at].focus();
    const here = fieldsAt(at);
    cells.forEach((cell, i) => {
      cell.classList.toggle("fi-here", i === at);
      cell.classList.toggle("fi-fellow", here.some(([, , first, length]) => i >= first && i < first + length));
    });
    rows.forEach((row, i) => row.classList.toggle("fi-chosen-field", here.includes(detail.fields[i])));
    const { decimal, binary, character } = otherWays(value(at));
    const named = here.map(([part, name, , , , shown, meaning]) => `${part} ${name} is ${shown}${meaning ? `: ${meaning}` : ""}`);
    setText(about, `Byte ${at}: ${value(at)} hex, ${decimal}, ${binary}${character ? `, ${character}` : ""}. ${named.join("; ") || "Payload"}.`);
    input.value = value(at);
  }

  const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: ROW, ArrowUp: -ROW, PageDown: 4 * ROW, PageUp: -4 * ROW };
  grid.addEventListener("keydown", (event) => {
    const to = event.key === "Home" ? 0 : event.key === "End" ? cells.length - 1 : event.key in STEPS ? at + STEPS[event.key] : null;
    if (to === null) {
      if (event.key === "Enter" && !editor.disabled) {
        event.preventDefault();
        event.stopPropagation(); // JupyterLab would run the cell
        input.focus();
        input.select();
      }
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (to >= 0 && to < cells.length) go(to, true);
  });
  const send = () => {
    const hex = input.value.replaceAll(/\s+/g, "");
    const fine = /^([0-9a-f]{2})+$/i.test(hex) && at + hex.length / 2 <= cells.length;
    input.setCustomValidity(fine ? "" : "Two hex digits a byte, within the frame");
    if (fine) edited(at, hex.toLowerCase());
    else input.reportValidity();
  };
  input.addEventListener("input", () => input.setCustomValidity(""));
  replay.addEventListener("click", send);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    send();
  });
  return { draw };
}
