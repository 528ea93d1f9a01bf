// The editor of a running program: the text on top, what was said of it below, then its versions.

const KEEP_MS = 400; // of rest after a key: then the text is kept
const CHECK_MS = 700;
const LOOK_MS = 1000;
const PATIENCE_MS = 40_000; // the compiler is ended after 30 s
const NO_ANSWER = "No answer: the notebook's kernel is busy or gone. The text is still here: copy it, or run the cell again.";
const STOP_MS = 500; // most compilations are done by then, and need no button to stop them
const SILENT_MS = { first: 3000, later: 8000 }; // a saved page has no kernel behind it: the first answer is waited for less
const SILENT = "No answer from the notebook's kernel: it was restarted, or is busy. Run this notebook's cells again to go on; the text is kept.";
const MAC = /Mac|iP(?:hone|ad)/.test(navigator.platform);

function render({ model, el }) {
  const view = Math.random().toString(36).slice(2);
  const parts = makeParts(el);
  let waiting = 0;
  let questions = 0;
  let told = ""; // the text that Python has
  let checked = ""; // the text that the remarks are about
  let asked = null; // the text of the run or check under way, and the number of that question
  let request = "";
  let queued = false; // a run was asked for meanwhile
  const dead = () => Boolean(model.get("state").ended);

  const say = (message) => {
    if (dead()) return;
    try {
      model.send(message);
    } catch {
      hush(true); // JupyterLab itself knows that the kernel has gone
    }
  };
  function ask(type, words) {
    if (dead()) return;
    if (asked !== null) {
      queued ||= type === "run";
      return;
    }
    keep.cancel();
    check.cancel();
    asked = told = code.text;
    request = `${view}-${++questions}`;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      asked = null;
      queued = false;
      work.show({});
      parts.run.removeAttribute("aria-busy");
      said.show(model.get("state").found, NO_ANSWER);
    }, PATIENCE_MS);
    if (words) said.show({}, words);
    work.ask();
    setAttribute(parts.run, "aria-busy", "true");
    say({ type, text: asked, view, request });
  }
  const run = () => ask("run", "Compiling …");
  const keep = later(() => {
    if (code.text === told) return;
    told = code.text;
    say({ type: "text", text: told, view });
  }, KEEP_MS);
  const check = later(() => parts.live.checked && ask("check", ""), CHECK_MS);
  function keepNow() {
    keep.now();
    setText(parts.note, "The text is kept.");
    setShown(parts.note, true);
  }

  const work = makeWork(parts.work, () => {
    queued = false;
    say({ type: "stop" });
  });
  parts.root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && work.stop()) event.stopPropagation();
  });
  const code = makeCode(parts.code, {
    ids: parts.ids,
    key: (name) => ({ run, keep: keepNow, stop: work.stop })[name](),
    changed() {
      remark();
      keep();
      if (parts.live.checked) check();
    },
  });
  const said = makeSaid(parts.said, (line, column) => {
    const [moved] = placeRemarks([{ line }], checked, code.text);
    code.go(moved?.line ?? line, column);
  });
  const versions = makeVersions(parts.versions, (message) => {
    if (message.type === "diff") keep.now();
    say(message);
  });
  parts.run.addEventListener("click", run);
  parts.original.addEventListener("click", () => say({ type: "original" }));
  parts.live.addEventListener("change", () => parts.live.checked && ask("check", ""));
  parts.functions.addEventListener("change", () => {
    keep.now();
    say({ type: "function", name: parts.functions.value });
  });
  const save = () => {
    keep.now();
    say({ type: "save", path: parts.path.value });
  };
  parts.save.addEventListener("click", save);
  parts.path.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") save();
  });

  /** The marks beside the lines, as far as their lines are still there. */
  function remark() {
    const { remarks = [] } = model.get("state").found ?? {};
    code.mark(placeRemarks(remarks, checked, code.text));
    said.stale(remarks.length > 0 && code.text !== checked);
  }

  function drawText() {
    const { text = "", whose } = model.get("given");
    if (whose === view) return;
    told = text;
    code.set(text);
    remark();
  }

  let last = null;
  let silent = false;
  let heard = false;
  function drawState() {
    const state = model.get("state");
    if (!state.found) return;
    setText(parts.title, state.title);
    setText(parts.file, [state.file, state.edited && "edited"].filter(Boolean).join(" · "));
    setAttribute(parts.root, "aria-label", `Editor of the program at ${state.title}`);
    const answer = asked !== null && state.answered === request;
    if (answer || (asked === null && JSON.stringify(state.found) !== last)) {
      checked = answer ? asked : code.text;
      said.show(state.found, "");
      setText(parts.status, statusOf(state.found));
      const first = state.found.remarks.find((each) => each.line);
      if (first && last !== null && document.activeElement !== code.area) code.reveal(first.line);
      last = JSON.stringify(state.found);
    }
    remark();
    work.show(asked !== null && !answer && !state.working ? null : state);
    if (answer) settled();
    setText(parts.note, state.note);
    setShown(parts.note, Boolean(state.note));
    const ended = state.ended || (silent ? SILENT : "");
    setText(parts.notice, ended);
    setShown(parts.notice, Boolean(ended));
    parts.original.disabled = !state.edited || Boolean(ended);
    for (const one of [parts.run, parts.live, parts.save, parts.path, parts.functions]) one.disabled = Boolean(ended);
    code.area.readOnly = Boolean(ended);
    versions.enable(!ended);
    const names = state.functions;
    setShown(parts.choice, names.length > 1);
    if (names.length > 1) {
      const options = names.includes(state.function) ? names : ["", ...names];
      parts.functions.replaceChildren(...options.map((name) => html("option", { value: name }, name || "choose one")));
      parts.functions.value = state.function;
    }
  }

  function drawAlive() {
    clearTimeout(unanswered);
    unanswered = 0;
    heard = true;
    if (silent) hush(false);
  }

  /** Without a kernel nothing is kept: so nothing can be typed either. */
  function hush(on) {
    silent = on;
    drawState();
  }

  /** A question has its answer: on to what was asked for meanwhile. */
  function settled() {
    clearTimeout(waiting);
    asked = null;
    parts.run.removeAttribute("aria-busy");
    if (queued) {
      queued = false;
      run();
    } else if (parts.live.checked && code.text !== checked) check();
  }

  const drawVersions = () => versions.show(model.get("versions_shown") ?? []);
  const drawDiff = () => versions.compare(model.get("diff_shown") ?? {}, model.get("versions_shown") ?? []);
  const listeners = [
    ["change:given", drawText],
    ["change:state", drawState],
    ["change:versions_shown", drawVersions],
    ["change:diff_shown", drawDiff],
    ["change:alive", drawAlive],
  ];
  for (const [name, work] of listeners) model.on(name, work);

  // Whether the kernel is there, and the verdicts' counts, are asked for only while somebody can see the answer.
  let seen = false;
  let unanswered = 0;
  const sight = new IntersectionObserver(([entry]) => (seen = entry.isIntersecting));
  sight.observe(parts.root);
  const look = () => {
    if (!seen || document.visibilityState !== "visible" || dead()) return;
    unanswered ||= setTimeout(() => hush(true), heard ? SILENT_MS.later : SILENT_MS.first);
    say({ type: "look" });
  };
  const clock = setInterval(look, LOOK_MS);

  drawText();
  drawState();
  drawVersions();
  drawDiff();
  return () => {
    keep.now();
    for (const [name, work] of listeners) model.off(name, work);
    sight.disconnect();
    clearInterval(clock);
    work.show({});
    clearTimeout(waiting);
    clearTimeout(unanswered);
    keep.cancel();
    check.cancel();
  };
}

function makeParts(el) {
  const button = (text, more = "", title) => html("button", { ...OWN_KEYS, type: "button", class: `xdp-button ${more}`, title }, text);
  const id = `ed-${Math.random().toString(36).slice(2)}`;
  const parts = {
    ids: { hint: `${id}-hint` },
    title: html("b", { class: "xdp-title" }),
    file: html("span", { class: "xdp-muted" }),
    run: button("Compile and run", "xdp-primary", `${MAC ? "Cmd" : "Ctrl"}+Enter in the text`),
    original: button("Original", "", "Put the first text back"),
    live: html("input", { ...OWN_KEYS, type: "checkbox" }),
    functions: html("select", { ...OWN_KEYS, class: "ed-select" }),
    code: html("div", { class: "ed-code" }),
    said: html("section", { class: "ed-said", "aria-label": "What compiler and verifier say" }),
    versions: html("section", { class: "ed-history", "aria-label": "Versions that ran" }),
    notice: html("p", { class: "xdp-notice", role: "status" }),
    note: html("p", { class: "ed-note", role: "status" }),
    work: html("div", { class: "ed-note ed-work", hidden: true }),
    status: html("p", { class: "xdp-hidden", role: "status" }),
    path: html("input", { ...OWN_KEYS, type: "text", class: "ed-path", "aria-label": "File to save the text in", placeholder: "mine.c" }),
    save: button("Save", "ed-small"),
  };
  const keys = html(
    "p",
    { class: "xdp-notes ed-hint", id: parts.ids.hint },
    `${MAC ? "Cmd" : "Ctrl"}+Enter compiles and runs, Esc stops a compilation. Tab indents; Esc, then Tab, leaves the text.`,
  );
  parts.choice = html("label", { class: "ed-choice" }, "Function", parts.functions);
  parts.root = html(
    "section",
    { class: "xdp-root ed-root" },
    html(
      "div",
      { class: "xdp-panel ed-panel" },
      html(
        "div",
        { class: "xdp-header" },
        html("div", { class: "xdp-who" }, parts.title, parts.file),
        html(
          "div",
          { class: "xdp-do" },
          parts.choice,
          html("label", { class: "ed-live" }, parts.live, "Check as I type"),
          parts.original,
          parts.run,
        ),
      ),
      parts.notice,
      parts.note,
      parts.work,
      parts.code,
      html("div", { class: "ed-foot" }, keys, html("span", { class: "ed-saving" }, "Save as", parts.path, parts.save)),
      parts.said,
      parts.versions,
      parts.status,
    ),
  );
  el.replaceChildren(parts.root);
  return parts;
}

export default { render };
