// The ring model: tunings and sliders on top, what changed, a packet's way, how it went beside the ledger, 2017's figures.

const NO_ANSWER = "No answer: the notebook's kernel is busy or gone.";
const PATIENCE_MS = 5000;
const REST_MS = 1200; // after a change: the picture that stays is made, and a slider under the hand is set

function render({ model, el }) {
  const parts = makeView(el);
  let waiting = 0;
  let resting = 0;
  const say = (message) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => tell(NO_ANSWER), PATIENCE_MS);
    model.send(message);
  };
  const set = (id, value) => say({ type: "set", id, value });
  const controls = makeControls(parts.controls, set);
  const costs = makeControls(parts.costs, set);
  const way = makeWay(parts.way);
  const plots = makePlots(parts.plots);
  const ledger = makeLedger(parts.ledger, "Ledger: every packet of the simulated time");
  const sum = html("p", { class: "rm-sum xdp-muted" });
  parts.ledger.append(sum, parts.published);
  const tunings = makeTunings(parts.tunings, (name) => say({ type: "tune", name }));
  parts.reset.addEventListener("click", () => say({ type: "reset" }));
  const speak = throttle(() => setText(parts.said, inWords(model.get("state"))), 1500);

  function tell(notice) {
    setText(parts.notice, notice);
    setShown(parts.notice, Boolean(notice));
  }

  function setControls(state) {
    for (const [box, made, list] of [[parts.controls, controls, state.controls], [parts.costs, costs, state.costs]]) {
      made.update(list);
      list.forEach((each, i) => (box.children[i].disabled = Boolean(state.ended) || each.fixed));
    }
    drawSources(parts.costs, state.costs);
  }

  function draw() {
    const state = model.get("state");
    if (!state.controls) return;
    clearTimeout(waiting);
    tell(state.ended);
    setText(parts.title, state.title);
    setAttribute(parts.root, "aria-label", `${state.title}: a model`);
    setText(parts.problem, state.error ? `✗ ${state.error}` : "");
    setShown(parts.problem, Boolean(state.error));
    setControls(state);
    tunings.update(state.tunings, state.ended);
    parts.reset.disabled = Boolean(state.ended) || state.first;
    if (state.way) drawOutcome(state);
    clearTimeout(resting);
    resting = setTimeout(rest, REST_MS);
  }

  function drawOutcome(state) {
    setText(parts.span, state.span);
    drawChanges(parts.changes, state.changes);
    setText(parts.warning, state.warning);
    setShown(parts.warning, Boolean(state.warning));
    way.update(state.way);
    plots.update(state.history, state.way.asleep);
    ledger.update(state.ledger);
    setText(sum, `offered = sent + losses + in flight + waiting: ${state.ledger.sum}`);
    drawPublished(parts.published, state.published);
    speak();
  }

  function rest() {
    const state = model.get("state");
    setControls(state);
    if (!state.ended) model.send({ type: "keep" });
  }

  const sized = new ResizeObserver(() => plots.resize(parts.plots.clientWidth - 28));
  sized.observe(parts.plots);
  model.on("change:state", draw);
  draw();
  return () => {
    model.off("change:state", draw);
    sized.disconnect();
    clearTimeout(waiting);
    clearTimeout(resting);
    speak.cancel();
    controls.destroy();
    costs.destroy();
  };
}

function makeView(el) {
  const parts = {
    title: html("b", { class: "xdp-title" }),
    span: html("span", { class: "xdp-muted" }),
    reset: html("button", { ...OWN_KEYS, type: "button", class: "xdp-button", title: "Back to the knobs it began with" }, "Reset"),
    notice: html("p", { class: "xdp-notice", role: "status" }),
    problem: html("p", { class: "xdp-error", role: "alert" }),
    tunings: html("div", { class: "rm-tunings", role: "group", "aria-label": "Tunings of the thread of 2017" }),
    controls: html("div", { class: "rm-controls" }),
    costs: html("div", { class: "rm-costs" }),
    changes: html("div", { class: "rm-changes" }),
    warning: html("p", { class: "rm-warning" }),
    way: html("div", { class: "rm-way", role: "group", "aria-label": "A packet's way, and its page's way back" }),
    plots: html("div", { class: "xdp-cell" }),
    ledger: html("div", { class: "xdp-cell" }),
    published: html("div", { class: "rm-published" }),
    said: html("p", { class: "xdp-hidden", role: "status", "aria-live": "polite" }),
  };
  const pill = html("span", { class: "xdp-pill" }, "a model: nothing here is measured");
  parts.root = html(
    "section",
    { class: "xdp-panel rm-panel" },
    html("div", { class: "xdp-header" }, html("div", { class: "xdp-who" }, parts.title, pill, parts.span), html("div", { class: "xdp-do" }, parts.reset)),
    parts.notice,
    parts.problem,
    html(
      "div",
      { class: "rm-knobs" },
      html("div", { class: "rm-presets" }, html("span", { class: "xdp-muted" }, "As in 2017"), parts.tunings),
      parts.controls,
      html("details", { class: "xdp-fold rm-fold" }, html("summary", { ...OWN_KEYS }, "What each step costs, and where that is from"), parts.costs),
    ),
    parts.changes,
    parts.warning,
    parts.way,
    html("div", { class: "xdp-halves" }, parts.plots, parts.ledger),
    parts.said,
  );
  place(el, parts.root);
  return parts;
}

/** A button a tuning, pressed where the knobs are exactly that one's. */
function makeTunings(box, send) {
  const made = new Map();
  return {
    update(tunings, ended) {
      for (const { name, on, stuck } of tunings) {
        let button = made.get(name);
        if (!button) {
          button = html("button", { ...OWN_KEYS, type: "button", class: "xdp-button" }, name);
          button.addEventListener("click", () => send(name));
          made.set(name, button);
          box.append(button);
        }
        button.disabled = Boolean(ended) || stuck.length > 0;
        setAttribute(button, "aria-pressed", String(on));
        setAttribute(button, "title", stuck.length ? `${stuck.join(", ")} can't be moved here` : null);
      }
    },
  };
}

/** Under each time where it comes from. */
function drawSources(box, costs) {
  costs.forEach(({ source }, i) => {
    let node = box.children[i].querySelector(".rm-source");
    if (!node) box.children[i].append((node = html("span", { class: "rm-source xdp-muted" })));
    setText(node, source);
  });
}

/** What was moved, and what came of it. An arrow says more or less. */
function drawChanges(box, { moved, came }) {
  const from = ([name, before, after]) => html("span", { class: "rm-moved" }, html("b", {}, name), ` ${before} → ${after}`);
  const to = ([name, before, after, way]) =>
    html("span", { class: "rm-came" }, `${name} `, html("span", { class: "xdp-muted" }, before), " → ", html("b", {}, after), way ? html("span", { class: "rm-sign" }, way > 0 ? " ▲" : " ▼") : "");
  const nothing = moved.length ? "nothing that is shown here" : "Move a slider: what changes stands here.";
  box.replaceChildren(...moved.map(from), ...(came.length ? came.map(to) : [html("span", { class: "xdp-muted" }, nothing)]));
}

/** The thread's figures beside the model's, where the knobs are exactly those of one of its tunings. */
function drawPublished(box, { name, rows }) {
  if (!rows.length) {
    const words = "The thread of 2017 has no figures for these knobs. It has some for the four tunings above, with the times as they were fitted.";
    box.replaceChildren(html("p", { class: "xdp-muted rm-small" }, words));
    return;
  }
  const head = ["Mpps", "thread of 2017", "this model", "ratio", "the model's is"];
  const side = (i) => (i > 0 && i < 4 ? "xdp-n" : undefined);
  const table = html(
    "table",
    { class: "xdp-ledger" },
    html("caption", {}, `Published for this tuning: ${name}`),
    html("thead", {}, html("tr", {}, ...head.map((words, i) => (html("th", { scope: "col", class: side(i) }, words))))),
    html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map((text, i) => html(i ? "td" : "th", i ? { class: side(i) } : { scope: "row" }, text))))),
  );
  box.replaceChildren(html("div", { class: "xdp-wide" }, table));
}

function inWords({ said, changes, warning }) {
  const came = changes.came.map(([name, before, after]) => `${name} ${before}, now ${after}`).join("; ");
  return [changes.moved.length ? `Since the last setting: ${came || "nothing changed"}.` : "", warning, said].filter(Boolean).join(" ");
}

export default { render };
