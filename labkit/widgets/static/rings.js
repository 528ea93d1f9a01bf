// The rings of an AF_XDP socket: controls where a program is at work, the rings, the memory, what was lost.

const SAY_MS = 4000;

function render({ model, el }) {
  const parts = makeView(el);
  const controls = makeControls(parts.choices, (id, value) => model.send({ type: "choose", id, value }));
  const memory = makeMemory();
  parts.memory.append(memory.node);
  parts.send.addEventListener("click", () => model.send({ type: "send" }));
  const say = throttle(() => setText(parts.said, inWords(model.get("state"))), SAY_MS);
  let rings = [];
  let answering = 0;

  function draw() {
    const state = model.get("state");
    if (!state.rings) return;
    setText(parts.title, state.title);
    setAttribute(parts.root, "aria-label", state.title);
    if (rings.length !== state.rings.length) {
      rings = state.rings.map(makeRing);
      parts.rings.replaceChildren(...rings.map((ring) => ring.node));
    }
    state.rings.forEach((ring, i) => rings[i].update(ring));
    memory.update(state.places, state.frames);
    setText(parts.lost, state.lost.some(([, n]) => n) ? `Lost: ${state.lost.filter(([, n]) => n).map(([words, n]) => `${formatCount(n)} ${words}`).join(", ")}` : "Nothing lost");
    parts.lost.classList.toggle("xdp-bad", state.lost.some(([, n]) => n));
    setText(parts.taken, state.taken === null ? "" : `${formatCount(state.taken)} packets taken`);
    setShown(parts.work, state.controls.length > 0);
    controls.update(state.controls);
    controls.enable(!state.ended);
    parts.send.disabled = Boolean(state.ended);
    setText(parts.send, state.sending ? "Stop the packets" : "Let packets come");
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

function inWords({ rings, places, lost }) {
  const filled = rings.map((ring) => `${ring.name} ${ring.filled} of ${ring.size}`).join(", ");
  const where = places.map(([place, number]) => `${place} ${number}`).join(", ");
  const gone = lost.reduce((sum, [, number]) => sum + number, 0);
  return `In the rings: ${filled}. Frames: ${where}. Packets lost: ${gone}.`;
}

function makeView(el) {
  const parts = {
    title: html("b", { class: "xdp-title" }),
    taken: html("span", { class: "xdp-muted" }),
    lost: html("span", {}),
    send: html("button", { ...OWN_KEYS, type: "button", class: "xdp-button xdp-primary" }, "Let packets come"),
    choices: html("div", { class: "rg-choices" }),
    notice: html("p", { class: "xdp-notice", role: "status" }),
    problem: html("p", { class: "xdp-error", role: "alert" }),
    rings: html("div", { class: "rg-rings" }),
    memory: html("div"),
    said: html("p", { class: "xdp-hidden", role: "status", "aria-live": "polite" }),
  };
  parts.work = html("div", { class: "rg-work" }, parts.choices, parts.send);
  parts.root = html(
    "section",
    { class: "xdp-panel rg-panel" },
    html("div", { class: "xdp-header" }, html("div", { class: "xdp-who" }, parts.title, parts.taken), html("div", { class: "xdp-do" }, parts.lost)),
    parts.notice,
    parts.problem,
    parts.work,
    parts.rings,
    parts.memory,
    html("p", { class: "xdp-notes" }, "Outer mark: where the next one is put in. Inner mark: where the next one is taken out. Between them is what the ring holds."),
    parts.said,
  );
  el.classList.add("xdp-root");
  el.replaceChildren(parts.root);
  return parts;
}

export default { render };
