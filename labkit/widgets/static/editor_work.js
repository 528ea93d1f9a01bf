// The work under way: what, for how long, and the button that stops it. Work that is soon done is never shown.

/** In `box`; `stop()` is called for the button, and by whoever hears the key. */
function makeWork(box, stop) {
  const button = html("button", { ...OWN_KEYS, type: "button", class: "xdp-button ed-small", title: "Esc" }, "Stop");
  const said = html("span", { class: "xdp-hidden", role: "status" });
  const time = html("b", { class: "ed-time", "aria-hidden": "true" });
  box.append(time, button, said);
  let began = null; // by this page's clock
  let what = "";
  let stopping = false;
  let timer = 0;

  function draw() {
    const s = began === null ? 0 : (performance.now() - began) / 1000;
    const shown = s * 1000 >= STOP_MS;
    setShown(box, shown);
    if (!shown) return setText(said, "");
    setText(time, `${stopping ? "Stopping" : what} … ${s.toFixed(1)} s`);
    setText(said, stopping ? "Stopping." : `${what}. Escape stops it.`);
  }

  function begin(next, since_s) {
    what = next;
    const at = performance.now() - since_s * 1000;
    if (began === null || Math.abs(at - began) > 1000) began = at;
    timer ||= setInterval(draw, 100);
    draw();
  }

  function end() {
    const focused = document.activeElement === button;
    clearInterval(timer);
    began = null;
    timer = 0;
    stopping = false;
    draw();
    if (focused) box.parentElement?.querySelector("textarea")?.focus({ preventScroll: true });
  }

  /** Whether there was something to stop. */
  function halt() {
    if (began === null || box.hidden) return false;
    stopping = true;
    draw();
    stop();
    return true;
  }
  button.addEventListener("click", halt);

  return {
    stop: halt,
    /** This page has asked for something: it counts from now on, whatever waits before it. */
    ask: () => begin("Compiling", 0),
    /** What Python says is under way; null: nothing of it is known yet. */
    show(state) {
      if (state === null) return;
      if (state.working) begin(state.working, state.since_s);
      else end();
    },
  };
}

/** Calls `work` after a rest of `wait_ms`. */
function later(work, wait_ms) {
  let timer = 0;
  const call = () => {
    clearTimeout(timer);
    timer = setTimeout(work, wait_ms);
  };
  call.cancel = () => clearTimeout(timer);
  call.now = () => {
    clearTimeout(timer);
    work();
  };
  return call;
}
