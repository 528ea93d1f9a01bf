// Where every page of a lab's pools is: the pool above, the way of a frame below, and sums that agree.

const SAY_MS = 4000;

function render({ model, el }) {
  const parts = makeView(el);
  const controls = makeControls(parts.choices, (id, value) => model.send({ type: "choose", id, value }));
  const pools = makePools();
  parts.pools.append(pools.node);
  parts.send.addEventListener("click", () => model.send({ type: "send" }));
  parts.read.addEventListener("click", () => model.send({ type: "read" }));
  const say = throttle(() => setText(parts.said, model.get("state").said), SAY_MS);
  let spots = null;
  let answering = 0;

  function draw() {
    const state = model.get("state");
    if (!state.spots) return;
    setText(parts.title, state.title);
    setAttribute(parts.root, "aria-label", state.title);
    if (!spots) {
      spots = state.spots.map(makeSpot);
      state.spots.forEach((spot, i) => (spot.side === "at home" ? parts.home : parts.away).append(spots[i].node));
    }
    const each = squareOf(Math.max(0, ...state.spots.map((spot) => spot.pages ?? 0)));
    state.spots.forEach((spot, i) => spots[i].update(spot, each));
    setText(parts.taken, formatCount(state.held ?? NaN));
    setText(parts.given, formatCount(state.released ?? NaN));
    setText(parts.sum, state.sum);
    parts.sum.classList.toggle("xdp-bad", !state.adds);
    setText(parts.frames, state.frames);
    setText(parts.key, `a square: ${each === 1 ? "1 page" : `${formatCount(each)} pages`}; full at home, hollow away`);
    pools.update(state.pools, state.more);
    setShown(parts.pools, state.pools.length > 0);
    setShown(parts.work, state.controls.length > 0);
    controls.update(state.controls);
    controls.enable(!state.ended);
    parts.send.disabled = parts.read.disabled = Boolean(state.ended);
    setText(parts.send, state.sending ? "Stop the frames" : "Let frames come");
    setAttribute(parts.send, "aria-pressed", String(Boolean(state.sending)));
    setText(parts.notice, state.ended);
    setShown(parts.notice, Boolean(state.ended));
    setText(parts.problem, state.error ? `✗ ${state.error}` : "");
    setShown(parts.problem, Boolean(state.error));
    say();
    answer(state.seq);
  }

  /** A frame is answered when it was drawn; in a hidden tab nothing is drawn, so nothing more comes. */
  function answer(seq) {
    cancelAnimationFrame(answering);
    answering = requestAnimationFrame(() => model.send({ type: "ack", seq }));
  }

  const seen = () => document.hidden || model.send({ type: "hello" });
  document.addEventListener("visibilitychange", seen);
  model.on("change:state", draw);
  draw();
  model.send({ type: "hello" });
  return () => {
    model.off("change:state", draw);
    document.removeEventListener("visibilitychange", seen);
    cancelAnimationFrame(answering);
    say.cancel();
    controls.destroy();
  };
}

function makeView(el) {
  const parts = {
    title: html("b", { class: "xdp-title" }),
    frames: html("span", { class: "xdp-muted" }),
    key: html("span", { class: "xdp-muted pm-key" }),
    send: html("button", { ...OWN_KEYS, type: "button", class: "xdp-button xdp-primary" }, "Let frames come"),
    read: html("button", { ...OWN_KEYS, type: "button", class: "xdp-button" }, "Read the socket"),
    choices: html("div", { class: "pm-choices" }),
    notice: html("p", { class: "xdp-notice", role: "status" }),
    problem: html("p", { class: "xdp-error", role: "alert" }),
    taken: html("b"),
    given: html("b"),
    sum: html("p", { class: "pm-sum" }),
    pools: html("div"),
    said: html("p", { class: "xdp-hidden", role: "status", "aria-live": "polite" }),
  };
  const allocator = html(
    "div",
    { class: "pm-spot pm-allocator" },
    html("div", { class: "pm-name" }, "page allocator"),
    html("div", { class: "pm-line" }, html("span", { class: "xdp-muted" }, "taken from it"), parts.taken),
    html("div", { class: "pm-line" }, html("span", { class: "xdp-muted" }, "given back"), parts.given),
  );
  parts.home = html("div", { class: "pm-row", role: "group", "aria-label": "At home" }, allocator);
  parts.away = html("div", { class: "pm-row", role: "group", "aria-label": "Away, in the order of a frame's way" });
  parts.work = html("div", { class: "pm-work" }, parts.choices, html("div", { class: "pm-buttons" }, parts.read, parts.send));
  parts.root = html(
    "section",
    { class: "xdp-panel pm-panel" },
    html("div", { class: "xdp-header" }, html("div", { class: "xdp-who" }, parts.title, parts.frames), html("div", { class: "xdp-do" }, parts.key)),
    parts.notice,
    parts.problem,
    parts.work,
    html(
      "div",
      { class: "pm-map" },
      parts.home,
      html("div", { class: "pm-between xdp-muted" }, html("span", {}, "↓ out, with a frame"), html("span", {}, "↑ home, when the frame's end has come")),
      parts.away,
      parts.sum,
    ),
    parts.pools,
    parts.said,
  );
  el.classList.add("xdp-root");
  el.replaceChildren(parts.root);
  return parts;
}

export default { render };
