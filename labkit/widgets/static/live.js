// What live views have in common: something at work and its controls, notices, and an answer to each frame that was drawn.

const SAY_MS = 4000;

/** The parts that each of them has; a view adds its own. */
function liveParts() {
  return {
    title: html("b", { class: "xdp-title" }),
    send: html("button", { ...OWN_KEYS, type: "button", class: "xdp-button xdp-primary" }),
    notice: html("p", { class: "xdp-notice", role: "status" }),
    problem: html("p", { class: "xdp-error", role: "alert" }),
    said: html("p", { class: "xdp-hidden", role: "status", "aria-live": "polite" }),
  };
}

/**
 * Keeps a view up to date: `draw(state)` draws what is its own, `inWords(state)` is for those who don't see it, `buttons` are
 * dead once it has ended, `start` and `stop` are the words of the button that lets something come. Returns what ends it.
 */
function goLive(model, parts, { draw, inWords, buttons, start, stop }) {
  const controls = makeControls(parts.choices, (id, value) => model.send({ type: "choose", id, value }));
  parts.send.addEventListener("click", () => model.send({ type: "send" }));
  const say = throttle(() => setText(parts.said, inWords(model.get("state"))), SAY_MS);
  let answering = 0;

  function update() {
    const state = model.get("state");
    if (!state.controls) return;
    setText(parts.title, state.title);
    setAttribute(parts.root, "aria-label", state.title);
    draw(state);
    setShown(parts.work, state.controls.length > 0);
    controls.update(state.controls);
    controls.enable(!state.ended);
    for (const button of buttons) button.disabled = Boolean(state.ended);
    setText(parts.send, state.sending ? stop : start);
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
  model.on("change:state", update);
  update();
  model.send({ type: "hello" });
  return () => {
    model.off("change:state", update);
    document.removeEventListener("visibilitychange", seen);
    cancelAnimationFrame(answering);
    say.cancel();
    controls.destroy();
  };
}

/** Puts a view's `root` on the page. */
function place(el, root) {
  el.classList.add("xdp-root");
  el.replaceChildren(root);
}
