// The entries of a map: a row each, kept over frames so that the focus stays where it is; the heads sort.

/** {node, update(state), focus(row)}; `open(row)` is asked for by a row's button, `sort(column)` by a head's. */
function makeEntries(open, sort) {
  const head = html("tr");
  const body = html("tbody");
  const caption = html("caption", { class: "xdp-hidden" }, "The entries of the map");
  const node = html("table", { class: "mb-entries" }, caption, html("thead", {}, head), body);
  let rows = new Map();
  let shape = "";
  let heads = [];

  body.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.classList.contains("mb-open")) return;
    const all = [...body.querySelectorAll(".mb-open")];
    const next = all[all.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    rove(all, next);
    next.focus();
  });
  body.addEventListener("focusin", (event) => {
    if (event.target.classList.contains("mb-open")) rove([...body.querySelectorAll(".mb-open")], event.target);
  });

  function update(state) {
    const editable = !state.locked && !state.ended;
    const next = JSON.stringify([state.map, editable, state.columns]);
    if (next !== shape) {
      shape = next;
      heads = state.columns.map((column) => makeHead(column, sort));
      head.replaceChildren(...heads.map((each) => each.node));
      rows = new Map();
    }
    const [, , by, descending] = state.wish;
    for (const each of heads) each.update(by, descending, state.since_s, Boolean(state.ended));
    const kept = new Map(state.rows.map((row) => [row.id, rows.get(row.id) ?? makeRow(row, state.columns, editable, open)]));
    const order = [...kept.values()].map((row) => row.node);
    if (order.length !== body.children.length || order.some((each, i) => each !== body.children[i])) settle(body, order);
    rows = kept;
    for (const row of state.rows) rows.get(row.id).update(row);
    const buttons = [...body.querySelectorAll(".mb-open")];
    if (buttons.length && !buttons.some((button) => button.tabIndex === 0)) buttons[0].tabIndex = 0;
  }

  return {
    node,
    update,
    focus(row) {
      (rows.get(row)?.node ?? body).querySelector(".mb-open")?.focus();
    },
  };
}

/** One of the buttons is in the tab order, arrows reach the others. */
function rove(all, one) {
  for (const button of all) button.tabIndex = button === one ? 0 : -1;
}

/** Puts rows in order; what has the focus has it afterwards. */
function settle(body, order) {
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  body.replaceChildren(...order);
  if (focused?.isConnected) focused.focus({ preventScroll: true });
}

function makeHead({ name, note, sort: by, kind }, sort) {
  const arrow = html("span", { class: "mb-arrow", "aria-hidden": "true" });
  const words = html("span", {}, name);
  const more = html("span", { class: "mb-note" }, note);
  const button = by ? html("button", { ...OWN_KEYS, type: "button", class: "mb-sort" }, words, arrow) : null;
  if (button) button.addEventListener("click", () => sort(by));
  const node = html("th", { scope: "col", class: `mb-${kind}` }, button ?? words, more);
  return {
    node,
    update(now, descending, since_s, ended) {
      const mine = Boolean(by) && now === by;
      setAttribute(node, "aria-sort", mine ? (descending ? "descending" : "ascending") : null);
      setText(arrow, mine ? (descending ? " ▼" : " ▲") : "");
      if (kind === "change") setText(more, `in ${formatTime(since_s)}`);
      if (button) button.disabled = ended;
    },
  };
}

function makeRow(row, columns, editable, open) {
  const cells = columns.map(({ kind }, i) => {
    const node = html(i === 0 ? "th" : "td", { class: `mb-${kind}`, scope: i === 0 ? "row" : undefined });
    return { node, kind, lines: [] };
  });
  const button = editable ? html("button", { ...OWN_KEYS, type: "button", class: "mb-open", tabindex: -1 }) : null;
  if (button) {
    cells[0].node.append(button);
    button.addEventListener("click", () => open(row.id));
  }
  const moves = html("span", { class: "mb-moves" });
  const change = html("span");
  cells.at(-1).node.append(moves, change);
  const node = html("tr", {}, ...cells.map((each) => each.node));
  return {
    node,
    update({ cells: texts, change: changes, moves: moving, new: fresh }) {
      texts.forEach((lines, i) => setLines(cells[i], lines, i === 0 ? button : null));
      if (button) setAttribute(button, "aria-label", `${texts[0].map(([text, beside]) => `${text} ${beside}`.trim()).join(", ")}: write or delete`);
      setText(moves, moving ? "● " : "");
      setAttribute(moves, "aria-label", moving ? "just changed:" : null);
      setAttribute(moves, "role", moving ? "img" : null);
      setText(change, [...(fresh ? ["new"] : []), ...changes].join(", "));
      node.classList.toggle("mb-moving", moving);
    },
  };
}

/** The lines of a cell, each a text and what stands beside it. */
function setLines(cell, lines, button) {
  const box = button ?? cell.node;
  while (cell.lines.length < lines.length) {
    const one = { text: html("span", { class: "mb-text" }), beside: html("span", { class: "mb-beside" }) };
    cell.lines.push(one);
    box.append(html("div", { class: "mb-line" }, one.text, one.beside));
  }
  lines.forEach(([text, beside], i) => {
    setText(cell.lines[i].text, text);
    setText(cell.lines[i].beside, beside ? ` ${beside}` : "");
  });
}
