// The panel: puts the parts together and keeps the talk with Python going.
//
// Python sets `frame` once a tick; the browser answers {type: "ack", seq}. A panel out of sight doesn't answer, and
// Python stops until it hears {type: "hello"}. Nothing is ever asked of the network.

const DEAD = new Set(["replaced", "closed"]);
const SILENCE_MS = 6000;
const STATE_WORDS = {
  idle: "idle",
  running: "running",
  stopped: "stopped",
  replaced: "replaced",
  closed: "closed",
  error: "error",
};
const NOTICES = {
  replaced: "Replaced by the panel of the same lab that was shown later.",
  closed: "The lab is closed. Run this cell again, from the one that makes the lab, to start anew.",
  lost: "No answer from the kernel: it is busy, or gone. This is the last picture. If it is gone, run the cells again.",
};

function render({ model, el }) {
  const parts = makeFrame(el);
  let looked = null; // what of the picture is looked at
  const art = makeTopology(parts.art, (key, node) => {
    looked = key;
    drawNotes();
    if (key) setAttribute(node, "aria-label", placeInWords(key, model.get("topology"), latest));
  });
  const chart = makeChart(parts.chart);
  const ledger = makeLedger(parts.ledger);
  const statistics = makeStatistics(parts.statistics, (open) => say({ type: "show", statistics: open }));
  const told = (id, value) => say({ type: "control", id, value });
  const controls = makeControls(parts.controls, told);
  const more = makeControls(parts.more, told);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const cleanups = [];
  // A saved notebook's panel has no kernel behind it: the first word is waited for less long than the later ones.
  let [inView, paused, lost, heard] = [true, false, false, performance.now() - SILENCE_MS / 2];
  let hellos = 0;
  let latest = model.get("frame") ?? {};
  let [lastSeq, lastEpoch] = [-1, undefined];

  const visible = () => inView && !document.hidden;
  const animation = makeAnimation(
    () => art.flows,
    () => visible() && !still.matches && !paused && !lost && !DEAD.has(latest.state),
  );
  const say = (message) => {
    if (DEAD.has(latest.state)) return;
    try {
      model.send(message);
    } catch {
      heard = -Infinity; // the connection has gone, and says so
    }
  };
  const on = (target, name, work) => {
    target.addEventListener(name, work);
    cleanups.push(() => target.removeEventListener(name, work));
  };
  const listen = (name, work) => {
    model.on(name, work);
    cleanups.push(() => model.off(name, work));
  };

  function drawNotes() {
    const topology = model.get("topology") ?? {};
    const words = looked ? placeInWords(looked, topology, latest) : (topology.notes ?? []).join(" ");
    setText(parts.notes, words);
    setShown(parts.notes, words !== "");
  }

  function setControls() {
    const all = model.get("controls") ?? [];
    controls.update(all.filter((one) => !one.more));
    more.update(all.filter((one) => one.more));
    setShown(parts.moreBox, all.some((one) => one.more));
  }

  /** Runs on a click: what goes wrong is said in the panel. */
  async function save(kind) {
    const name = model.get("topology")?.name ?? "lab";
    try {
      if (kind === "csv") {
        const text = toCsv(exportRows(latest.ledger, chart.history()));
        saveFile(`${name}.csv`, new Blob([text], { type: "text/csv" }));
      } else {
        const drawings = [parts.art.querySelector("svg"), chart.art];
        saveFile(`${name}.png`, await toPng(parts.root, drawings, [`${name}: ${parts.pill.textContent}`, chart.inWords()].join(" · ")));
      }
    } catch (error) {
      setText(parts.problem, `✗ The ${kind.toUpperCase()} file could not be made: ${error.message}`);
      setShown(parts.problem, true);
    }
  }

  function draw() {
    const running = latest.state === "running" && !lost;
    const offline = lost || DEAD.has(latest.state);
    art.update(model.get("topology"), { ...latest, offline });
    ledger.update(latest.ledger);
    statistics.update(latest.moved, latest.cpus);
    drawNotes();
    drawHeader(parts, model, latest, { lost, paused, running, offline });
    controls.enable(!offline);
    more.enable(!offline);
    parts.log.update(latest.events ?? []);
    parts.summary.update(latest);
    animation.wake();
  }

  function onFrame() {
    const next = model.get("frame") ?? {};
    heard = performance.now();
    if (!(visible() && !paused) && !DEAD.has(next.state)) return;
    lost = false;
    hellos = 0;
    latest = next;
    if (next.seq !== lastSeq) {
      if (next.epoch !== lastEpoch) chart.clear();
      [lastSeq, lastEpoch] = [next.seq, next.epoch];
      if (!DEAD.has(next.state)) chart.add(next.series ?? [], performance.now() / 1000);
    }
    draw();
    say({ type: "ack", seq: next.seq });
  }

  function greet() {
    if (!visible() || paused) return;
    heard = performance.now();
    hellos = 0;
    say({ type: "hello" });
  }

  // The dead man's switch: a kernel that has gone can't say so.
  const watch = setInterval(() => {
    if (!visible() || paused || DEAD.has(latest.state)) return;
    const silent = performance.now() - heard;
    if (silent > SILENCE_MS && !lost) {
      lost = true;
      draw();
    }
    if (silent > SILENCE_MS / 2 && hellos++ < 5) say({ type: "hello" });
  }, 1000);
  cleanups.push(() => clearInterval(watch));

  listen("change:frame", onFrame);
  listen("change:topology", draw);
  listen("change:controls", setControls);
  on(parts.go, "click", () => say({ type: "action", name: latest.state === "running" ? "stop" : "start" }));
  on(parts.reset, "click", () => say({ type: "action", name: "reset" }));
  on(parts.csv, "click", () => save("csv"));
  on(parts.png, "click", () => save("png"));
  on(parts.pause, "click", () => {
    paused = !paused;
    if (paused) draw();
    else greet();
  });
  on(document, "visibilitychange", greet);
  on(still, "change", () => animation.wake());

  const seen = new IntersectionObserver(([entry]) => {
    const now = entry.isIntersecting;
    if (now === inView) return;
    inView = now;
    greet();
  });
  seen.observe(parts.root);
  const sized = new ResizeObserver(() => {
    art.resize(parts.art.clientWidth);
    chart.resize(parts.chart.clientWidth - 28);
    draw();
  });
  sized.observe(parts.root);
  cleanups.push(
    () => seen.disconnect(),
    () => sized.disconnect(),
    () => animation.stop(),
    () => controls.destroy(),
    () => more.destroy(),
    () => parts.summary.stop(),
  );

  art.resize(parts.art.clientWidth || 900);
  chart.resize((parts.chart.clientWidth || 450) - 28);
  setControls();
  draw();
  say({ type: "hello" });
  return () => {
    for (const work of cleanups.splice(0)) work();
  };
}

function drawHeader(parts, model, frame, { lost, paused, running, offline }) {
  const topology = model.get("topology") ?? {};
  const state = STATE_WORDS[frame.state] ?? "idle";
  setText(parts.name, topology.name ?? "");
  setText(parts.title, topology.title ?? "");
  setAttribute(parts.root, "aria-label", `Live panel of lab ${topology.name ?? ""}`);
  setText(
    parts.pill,
    lost ? "no answer" : paused ? "picture paused" : running ? `running ${formatTime(frame.elapsed_s)}` : state,
  );
  setAttribute(
    parts.pill,
    "class",
    `xdp-pill ${lost || frame.state === "error" ? "xdp-bad" : running && !paused ? "xdp-good" : "xdp-muted"}`,
  );
  setAttribute(parts.root, "class", offline ? "xdp-panel xdp-offline" : "xdp-panel");
  setText(parts.go, running ? "Stop" : "Start");
  setText(parts.pause, paused ? "Resume" : "Pause");
  setAttribute(parts.pause, "aria-pressed", String(paused));
  for (const button of [parts.go, parts.reset, parts.pause]) if (button.disabled !== offline) button.disabled = offline;
  const notice = lost ? NOTICES.lost : (NOTICES[frame.state] ?? "");
  setText(parts.notice, notice);
  setShown(parts.notice, notice !== "");
  const { text = "", remedy = "" } = frame.error ?? {};
  setText(parts.problem, text ? `✗ ${text}${remedy ? ` ${remedy}` : ""}` : "");
  setShown(parts.problem, text !== "");
}

export default { render };
