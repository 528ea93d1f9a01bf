// The maps of a lab's programs: which one, what it is, its entries as they change, and a form to write to one.

const FIND_MS = 200;

function render({ model, el }) {
  const parts = makeView(el);
  const send = (type, more = {}) => model.send({ type, ...more });
  const table = makeEntries((row) => send("open", { row }), (by) => send("sort", { by }));
  const form = makeForm(send, (row) => (row ? table.focus(row) : parts.add.focus()));
  parts.table.append(table.node);
  parts.form.append(form.node);
  const find = throttle(() => send("search", { text: parts.search.value, where: parts.where.value }), FIND_MS);
  parts.search.addEventListener("input", find);
  parts.where.addEventListener("change", find);
  parts.map.addEventListener("change", () => send("choose", { id: "map", value: Number(parts.map.value) }));
  parts.mark.addEventListener("click", () => send("mark"));
  parts.add.addEventListener("click", () => send("open"));
  parts.undo.addEventListener("click", () => send("undo"));
  parts.back.addEventListener("click", () => send("page", { to: model.get("state").page[0] - 1 }));
  parts.next.addEventListener("click", () => send("page", { to: model.get("state").page[0] + 1 }));
  let shown = null;

  function draw(state) {
    setOptions(parts.map, state.maps);
    setShown(parts.body, state.map !== null);
    setShown(parts.none, state.map === null);
    if (state.map === null) return;
    if (shown !== state.map) {
      shown = state.map;
      parts.map.value = String(state.map);
      [parts.search.value, parts.where.value] = state.wish;
    }
    drawWords(parts, state);
    setShown(parts.find, state.readable);
    setShown(parts.table, state.readable);
    setShown(parts.foot, state.readable);
    if (state.readable) table.update(state);
    drawFoot(parts, state);
    form.update(state.ended ? null : state.form);
  }

  const buttons = [parts.map, parts.search, parts.where, parts.mark, parts.add, parts.undo];
  const end = goLive(model, parts, { draw, inWords, buttons, start: "", stop: "" });
  return () => {
    find.cancel();
    end();
  };
}

/** For those who don't see it: which map, how many entries, which have just changed. */
function inWords({ maps, map, span, rows, readable, about }) {
  if (map === null) return "There is no map here yet.";
  const name = maps.find(([id]) => id === map)?.[1] ?? "";
  if (!readable) return `${name}. ${about}`;
  const moving = rows.filter((row) => row.moves).length;
  return `${name}. ${span}. ${moving ? `${moving} of these are changing.` : "Nothing is changing."}`;
}

function drawWords(parts, state) {
  drawList(parts.facts, state.facts, ([what, value]) => [html("span", { class: "xdp-muted" }, what), ` ${value}`]);
  setText(parts.about, state.about);
  drawList(parts.users, state.users, ([name, id, does, where]) => [
    html("b", {}, name),
    html("span", { class: "xdp-muted" }, ` id ${id}`),
    ` ${does}; ${where}`,
  ]);
  setText(parts.locked, state.locked ? `Read-only here. ${state.locked}` : "");
  setShown(parts.locked, Boolean(state.locked));
  setText(parts.refused, state.refused ? `✗ ${state.refused}` : "");
  setShown(parts.refused, Boolean(state.refused));
  setShown(parts.ring, Boolean(state.fill));
  if (!state.fill) return;
  const [waiting, size, written] = state.fill;
  setAttribute(parts.level, "style", `width: ${((100 * waiting) / size).toFixed(2)}%`);
  setText(
    parts.ringWords,
    `${formatCount(waiting)} of ${formatCount(size)} bytes wait for the reader; ${formatCount(written)} bytes were written since it was made`,
  );
}

function drawFoot(parts, state) {
  setText(parts.span, state.span);
  setText(parts.gone, state.gone);
  setShown(parts.gone, Boolean(state.gone));
  parts.back.disabled = Boolean(state.ended) || state.page[0] === 0;
  parts.next.disabled = Boolean(state.ended) || state.page[0] >= state.page[1] - 1;
  setShown(parts.pager, state.page[1] > 1);
  setShown(parts.add, state.can_add);
  setShown(parts.undo, Boolean(state.undo));
  setText(parts.undo, `Undo: ${state.undo}`);
  setText(parts.done, state.said ? `✓ ${state.said}` : "");
}

/** A list of spans or items, made anew where the data is another one. */
function drawList(box, data, one) {
  const key = JSON.stringify(data);
  if (box.dataset.shown === key) return;
  box.dataset.shown = key;
  box.replaceChildren(...data.map((each) => html(box.tagName === "UL" ? "li" : "span", {}, ...one(each))));
}

/** The options of a select, [value, text] each, made anew where they are others; what is chosen stays. */
function setOptions(select, options) {
  const key = JSON.stringify(options);
  if (select.dataset.shown === key) return;
  select.dataset.shown = key;
  const value = select.value;
  select.replaceChildren(...options.map(([each, text]) => html("option", { value: each }, text)));
  if (options.some(([each]) => String(each) === value)) select.value = value;
}

function makeView(el) {
  const button = (text) => html("button", { ...OWN_KEYS, type: "button", class: "xdp-button" }, text);
  const parts = {
    ...liveParts(),
    map: html("select", { ...OWN_KEYS, class: "mb-select mb-map", "aria-label": "Map" }),
    facts: html("p", { class: "mb-facts" }),
    about: html("p", { class: "mb-about" }),
    users: html("ul", { class: "mb-users", "aria-label": "Programs that use it" }),
    locked: html("p", { class: "mb-locked" }),
    refused: html("p", { class: "xdp-error", role: "alert" }),
    search: html("input", { ...OWN_KEYS, type: "search", class: "mb-input mb-search", maxlength: 80, placeholder: "17, 0x11, 10.0.0.2, a name", "aria-label": "Search the entries" }),
    where: html("select", { ...OWN_KEYS, class: "mb-select", "aria-label": "Search in" }, ...["keys and values", "keys", "values"].map((each) => html("option", {}, each))),
    choices: html("div", { class: "mb-choices" }),
    table: html("div", { class: "mb-table xdp-wide" }),
    level: html("div", { class: "mb-level" }),
    ringWords: html("p", { class: "mb-ring-words" }),
    span: html("span", { class: "mb-span" }),
    gone: html("span", { class: "mb-gone" }),
    back: button("Previous"),
    next: button("Next"),
    mark: button("Count changes from now"),
    add: button("Add an entry"),
    undo: button(""),
    done: html("p", { class: "mb-done", role: "status" }),
    form: html("div"),
    none: html("p", { class: "mb-about" }, "There is no map here yet: load a program that has one."),
  };
  parts.work = parts.choices;
  parts.find = html("div", { class: "mb-find" }, html("div", { class: "mb-look" }, parts.search, parts.where), parts.choices);
  parts.ring = html("div", { class: "mb-ring" }, html("div", { class: "mb-bar", "aria-hidden": "true" }, parts.level), parts.ringWords);
  parts.pager = html("span", { class: "mb-pager" }, parts.back, parts.next);
  parts.foot = html("div", { class: "mb-foot" }, parts.pager, parts.span, parts.gone, html("span", { class: "mb-do" }, parts.undo, parts.add, parts.mark));
  parts.body = html(
    "div",
    {},
    html("div", { class: "mb-what" }, parts.facts, parts.about, parts.users, parts.locked),
    parts.refused,
    parts.ring,
    parts.find,
    parts.table,
    parts.foot,
    parts.done,
    parts.form,
  );
  parts.root = html(
    "section",
    { class: "xdp-panel mb-panel" },
    html("div", { class: "xdp-header" }, html("div", { class: "xdp-who" }, parts.title), html("div", { class: "xdp-do" }, parts.map)),
    parts.notice,
    parts.problem,
    parts.none,
    parts.body,
    parts.said,
  );
  place(el, parts.root);
  return parts;
}

export default { render };
