// A frame's buffer, step by step: controls on top, what the chosen byte is, and the strips below one another.

const KINDS = [
  { value: "meta", text: "metadata" },
  { value: "head", text: "head" },
  { value: "tail", text: "tail" },
  { value: "write", text: "write" },
];
const HINTS = {
  meta: "bpf_xdp_adjust_meta: below 0, data_meta moves to the left and makes room for metadata",
  head: "bpf_xdp_adjust_head: below 0, data moves to the left and the frame grows in front",
  tail: "bpf_xdp_adjust_tail: above 0, data_end moves to the right and the frame grows behind",
  write: "fills the metadata with a0 a1 a2 …",
};
const NO_ANSWER = "No answer: the notebook's kernel is busy or gone.";
const PATIENCE_MS = 5000;
const LABELS = { frame: "Frame", mode: "Mode", sender: "Sent by" };

function render({ model, el }) {
  let waiting = 0;
  const say = (message) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => tell(NO_ANSWER), PATIENCE_MS);
    model.send(message);
  };
  const parts = makeParts(el);
  const inspector = makeInspector(parts.inspector);
  const strips = makeStrips(parts.art, inspector);
  let kind = "meta";
  const steps = makeControls(parts.kinds, (_id, value) => {
    kind = value;
    drawStep();
  });
  const choices = makeControls(parts.choices, (id, value) => say({ type: "choose", id, value }));
  const attempt = () => {
    if (!parts.attempt.disabled) say({ type: "try", kind, bytes: kind === "write" ? 0 : Math.trunc(Number(parts.bytes.value) || 0) });
  };
  parts.attempt.addEventListener("click", attempt);
  parts.undo.addEventListener("click", () => say({ type: "undo" }));
  parts.reset.addEventListener("click", () => say({ type: "reset" }));
  parts.bytes.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.stopPropagation(); // JupyterLab would run or leave the cell
    attempt();
  });

  function tell(notice) {
    setText(parts.notice, notice);
    setShown(parts.notice, Boolean(notice));
  }

  function drawStep() {
    steps.update([{ id: "kind", label: "Step", kind: "segmented", options: KINDS, value: kind }]);
    parts.amount.disabled = kind === "write" || Boolean(model.get("state").ended);
    setAttribute(parts.bytes, "step", kind === "meta" ? 4 : 1);
    setText(parts.hint, HINTS[kind]);
  }

  function drawState() {
    const state = model.get("state");
    if (!state.options) return;
    clearTimeout(waiting);
    const { options, chosen, ended } = state;
    setText(parts.title, state.title);
    setAttribute(parts.root, "aria-label", state.title);
    choices.update(
      Object.entries(options).map(([id, values]) => ({ id, label: LABELS[id], kind: "segmented", options: values, value: chosen[id] })),
    );
    choices.enable(!ended);
    steps.enable(!ended);
    const full = state.steps >= state.most;
    parts.attempt.disabled = Boolean(ended) || full;
    parts.undo.disabled = parts.reset.disabled = Boolean(ended) || state.steps === 0;
    setText(parts.count, full ? `${state.steps} of ${state.most} steps: undo or reset to go on` : `${state.steps} of ${state.most} steps`);
    tell(ended);
    setText(parts.problem, state.error ? `✗ ${state.error}` : "");
    setShown(parts.problem, Boolean(state.error));
    setText(parts.said, state.said);
    drawStep();
  }

  function drawTable() {
    const { head = [], rows = [], notes = [] } = model.get("table");
    parts.head.replaceChildren(...head.map((text) => html("th", { scope: "col" }, text)));
    parts.rows.replaceChildren(
      ...rows.map((row) => html("tr", {}, ...row.map((text, i) => html(i ? "td" : "th", i ? {} : { scope: "row" }, text)))),
    );
    parts.notes.replaceChildren(...notes.map((text) => html("li", {}, text)));
  }

  const drawPicture = () => strips.draw(model.get("drawing"), model.get("state").title);
  const listeners = [
    ["change:state", drawState],
    ["change:drawing", drawPicture],
    ["change:table", drawTable],
  ];
  for (const [name, work] of listeners) model.on(name, work);
  const measure = throttle(() => model.send({ type: "width", width: parts.art.clientWidth - 14 }), 250);
  const sized = new ResizeObserver(measure);
  sized.observe(parts.art);
  drawState();
  drawTable();
  drawPicture();
  return () => {
    for (const [name, work] of listeners) model.off(name, work);
    clearTimeout(waiting);
    sized.disconnect();
    measure.cancel();
    choices.destroy();
    steps.destroy();
  };
}

function makeParts(el) {
  const button = (text, more = "", title) => html("button", { ...OWN_KEYS, type: "button", class: `xdp-button ${more}`, title }, text);
  const parts = {
    title: html("b", { class: "xdp-title" }),
    count: html("span", { class: "xdp-muted" }),
    undo: button("Undo", "", "Take the last step away"),
    reset: button("Reset", "", "Take all steps away: the frame as it comes"),
    notice: html("p", { class: "xdp-notice", role: "status" }),
    problem: html("p", { class: "xdp-error", role: "alert" }),
    choices: html("div", { class: "fm-choices" }),
    kinds: html("div", { class: "fm-kinds" }),
    bytes: html("input", { ...OWN_KEYS, type: "number", value: "-8", min: -65535, max: 65535, class: "fm-bytes", "aria-label": "bytes" }),
    attempt: button("Try it", "xdp-primary"),
    hint: html("p", { class: "fm-hint xdp-muted" }),
    inspector: html("div", { class: "fm-inspector" }),
    art: html("div", { class: "fm-room-for-art", role: "group", "aria-label": "The buffer, a strip a step; the table below says the same" }),
    head: html("tr"),
    rows: html("tbody"),
    notes: html("ul", { class: "fm-notes" }),
    said: html("p", { class: "fm-said-last", role: "status" }),
  };
  parts.amount = html("fieldset", { class: "xdp-control" }, html("label", { class: "fm-amount" }, "by", parts.bytes, "bytes"));
  const table = html("table", { class: "xdp-ledger fm-table" }, html("thead", {}, parts.head), parts.rows);
  parts.root = html(
    "section",
    { class: "xdp-panel fm-panel" },
    html(
      "div",
      { class: "xdp-header" },
      html("div", { class: "xdp-who" }, parts.title, parts.count),
      html("div", { class: "xdp-do" }, parts.undo, parts.reset),
    ),
    parts.notice,
    parts.problem,
    html("div", { class: "fm-controls" }, parts.choices, html("div", { class: "fm-step" }, parts.kinds, parts.amount, parts.attempt), parts.hint, parts.said),
    parts.inspector,
    parts.art,
    html("details", { class: "fm-more" }, html("summary", { ...OWN_KEYS }, "The same as a table, and what is measured"), html("div", { class: "fm-scroll" }, table), parts.notes),
  );
  el.classList.add("xdp-root");
  el.replaceChildren(parts.root);
  return parts;
}

/** The line that tells what the chosen byte is. */
function makeInspector(box) {
  const hex = html("b", { class: "fm-value" });
  const ways = html("span", { class: "xdp-muted" });
  const name = html("b");
  const place = html("span", { class: "xdp-muted" });
  const fields = html("span", { class: "fm-fields" });
  const digits = html("div", { class: "fm-digits" }, hex, ways);
  box.append(digits, html("div", { class: "fm-what" }, name, " ", place, fields));
  const idle = "Point at a byte, or go to a strip by Tab and along it by the arrow keys.";
  const clear = () => {
    for (const node of [hex, ways, place]) setText(node, "");
    setText(name, "");
    setShown(digits, false);
    fields.replaceChildren(idle);
  };
  clear();
  return {
    clear,
    folded: ([first, last]) => {
      clear();
      setText(name, `${formatCount(last - first)} bytes`);
      fields.replaceChildren("are folded away here: nothing begins or ends among them.");
    },
    show(found) {
      setShown(digits, true);
      setText(hex, found.hex || "––");
      const { decimal, binary, character } = found.hex ? otherWays(found.hex) : {};
      setText(ways, found.hex ? [decimal, binary, character].filter(Boolean).join(" · ") : "not copied");
      setText(name, found.name);
      setText(place, found.place);
      fields.replaceChildren(
        ...found.fields.map(([, field, , length, value, meaning]) =>
          html("span", { class: "fm-field-words" }, html("b", {}, field), ` ${value}`, html("span", { class: "xdp-muted" }, ` ${meaning}${length > 1 ? ` (${length} bytes)` : ""}`)),
        ),
      );
    },
  };
}

/** The drawing, with a strip's cursor on the byte that is pointed at. */
function makeStrips(box, inspector) {
  let drawing = null;
  let cursor = null;
  let here = null; // [number of the strip, byte]

  function draw(next, title) {
    if (!next.shapes) return;
    const focused = box.contains(document.activeElement) ? document.activeElement.dataset.strip : null;
    drawing = next;
    cursor = svg("g", { class: "fm-cursor", display: "none", "aria-hidden": "true" }, svg("rect", { class: "fm-at-field" }), svg("rect", { class: "fm-at-byte" }));
    const art = svg("svg", { class: "fm-art", viewBox: `0 0 ${next.width} ${next.height}`, width: next.width, height: next.height, role: "group", "aria-label": title });
    art.append(...next.shapes.map(build), cursor, ...next.strips.map(handle));
    art.addEventListener("pointerleave", () => {
      if (!box.contains(document.activeElement)) leave();
    });
    box.replaceChildren(art);
    leave();
    if (focused !== null) [...art.querySelectorAll("[data-strip]")].find((n) => n.dataset.strip === focused)?.focus({ preventScroll: true });
  }

  const build = ([tag, attributes, text, children]) => svg(tag, attributes, text, ...children.map(build));

  /** What lies over a strip: takes the mouse and the focus. */
  function handle(strip) {
    const [first] = drawing.axis;
    const last = drawing.axis.at(-1);
    const node = svg("rect", {
      ...OWN_KEYS,
      class: "fm-handle",
      x: first[2],
      y: strip.top - 2,
      width: last[2] + last[3] - first[2],
      height: strip.height + 4,
      tabindex: 0,
      role: "slider",
      "aria-label": strip.number ? `buffer after step ${strip.number}` : "buffer as the frame came",
      "aria-valuemin": 0,
      "aria-valuemax": strip.end - 1,
      "data-strip": strip.number,
    });
    const go = (at) => point(strip, at, node);
    node.addEventListener("pointermove", (event) => {
      const box = node.ownerSVGElement.getBoundingClientRect();
      const found = byteAt(drawing.axis, ((event.clientX - box.left) * drawing.width) / box.width);
      if (found?.folded) {
        leave();
        inspector.folded(found.folded);
      } else if (found) go(found.at);
    });
    node.addEventListener("focus", () => go(here && here[0] === strip.number ? here[1] : strip.data));
    node.addEventListener("blur", leave);
    node.addEventListener("keydown", (event) => {
      const at = here && here[0] === strip.number ? here[1] : strip.data;
      const to = {
        ArrowRight: () => nextByte(drawing.axis, at, 1),
        ArrowLeft: () => nextByte(drawing.axis, at, -1),
        PageDown: () => neighbour(strip, at, 1),
        PageUp: () => neighbour(strip, at, -1),
        Home: () => strip.data_meta,
        End: () => strip.data_end - 1,
      }[event.key];
      if (!to) return;
      event.preventDefault();
      event.stopPropagation();
      go(to());
    });
    setAttribute(node, "aria-valuenow", strip.data);
    setAttribute(node, "aria-valuetext", byteInWords(describeByte(drawing, strip, strip.data)));
    return node;
  }

  /** The first byte of the next or the previous piece. */
  function neighbour(strip, at, step) {
    const starts = strip.pieces.map(([, , first]) => first);
    const next = step > 0 ? starts.find((first) => first > at) : starts.findLast((first) => first < at);
    return next ?? at;
  }

  function point(strip, at, node) {
    here = [strip.number, at];
    const found = describeByte(drawing, strip, at);
    inspector.show(found);
    setAttribute(node, "aria-valuenow", at);
    setAttribute(node, "aria-valuetext", byteInWords(found));
    const spans = found.fields.map(([, , first, length]) => [drawing.start + first, drawing.start + first + length]);
    const [low, high] = spans.length
      ? [Math.min(...spans.map((s) => s[0])), Math.max(...spans.map((s) => s[1]))]
      : found.piece
        ? [found.piece[2], found.piece[3]]
        : [at, at + 1];
    frame(cursor.firstChild, strip, Math.max(low, 0), high, 2.5);
    frame(cursor.lastChild, strip, at, at + 1, 0);
    setAttribute(cursor, "display", null);
  }

  function frame(node, strip, first, last, outside) {
    const x = pixelOf(drawing.axis, first);
    setAttribute(node, "x", x);
    setAttribute(node, "width", Math.max(1, pixelOf(drawing.axis, last) - x));
    setAttribute(node, "y", strip.top - outside);
    setAttribute(node, "height", strip.height + 2 * outside);
  }

  function leave() {
    if (cursor) setAttribute(cursor, "display", "none");
    inspector.clear();
  }

  return { draw };
}

export default { render };
