// Frames and their way through a program: the list, the bytes and fields of the chosen one, the source with marks.

const MARKS = { way: ["●", "on the way"], decides: ["▶", "the verdict hangs on this line"], "": ["", ""] };

function render({ model, el }) {
  const parts = makeParts(el);
  const bytes = makeBytes(parts, (offset, hex) => model.send({ type: "edit", offset, hex }));
  const list = makeList(parts.list, (number) => model.send({ type: "choose", number }));
  parts.again.addEventListener("click", () => model.send({ type: "replay" }));
  parts.clear.addEventListener("click", () => model.send({ type: "clear" }));
  let shown = null;

  function draw(state) {
    setText(parts.program, state.program);
    list.update(state);
    setText(parts.captures, state.captures);
    const full = state.full ? `${formatCount(state.most)} frames are kept: clear the list for new ones.` : "";
    setText(parts.full, full);
    setShown(parts.full, Boolean(full));
    setShown(parts.empty, state.frames.length === 0);
    setShown(parts.body, state.frames.length > 0);
    if (state.ended) parts.editor.disabled = true;
  }

  function drawDetail() {
    const detail = model.get("detail");
    const state = model.get("state");
    bytes.draw(detail, !state.ended);
    const fresh = shown === null || shown.number !== detail.number || shown.lines !== detail.lines;
    shown = detail;
    setText(parts.chosen, detail.number ? `Frame ${detail.number}` : "");
    setText(parts.verdict, detail.verdict ? `${detail.sign} ${detail.verdict}` : "");
    setAttribute(parts.verdict, "class", `fi-verdict fi-${detail.role ?? "plain"}`);
    setText(parts.sentence, detail.sentence ?? "");
    setText(parts.trouble, detail.problem ?? "");
    setShown(parts.trouble, Boolean(detail.problem));
    setText(parts.wrote, detail.wrote ?? "");
    setText(parts.file, detail.file ?? "");
    setShown(parts.code, Boolean(detail.lines?.length));
    drawSource(parts.source, detail.lines ?? [], fresh);
    drawTable(parts, detail);
    parts.changes.replaceChildren(...(detail.changes ?? []).map((text) => html("li", {}, text)));
    setShown(parts.changed, Boolean(detail.changes?.length));
    parts.notes.replaceChildren(...(detail.notes ?? []).map((text) => html("li", {}, text)));
  }

  const end = goLive(model, parts, { draw, inWords, buttons: [parts.again, parts.clear], start: "", stop: "" });
  model.on("change:detail", drawDetail);
  drawDetail();
  return () => {
    model.off("change:detail", drawDetail);
    end();
  };
}

function inWords({ frames, chosen }) {
  const frame = frames.find(({ number }) => number === chosen);
  return `${formatCount(frames.length)} frames.${frame ? ` Frame ${frame.number}: ${frame.summary}, ${frame.verdict}.` : ""}`;
}

/** The frames as a list to choose from, by mouse or arrow keys. */
function makeList(node, choose) {
  let made = [];
  let chosen = 0;

  function update(state) {
    chosen = state.chosen;
    if (made.length > state.frames.length) {
      made = [];
      node.replaceChildren();
    }
    state.frames.forEach((frame, i) => {
      if (!made[i]) node.append((made[i] = makeItem(frame.number)).node);
      made[i].set(frame, frame.number === chosen);
    });
    if (!made[chosen - 1] && made[0]) setAttribute(made[0].node, "tabindex", "0");
  }

  function makeItem(number) {
    const parts = {
      number: html("span", { class: "fi-number" }, String(number)),
      summary: html("span", { class: "fi-summary" }),
      more: html("span", { class: "fi-more xdp-muted" }),
      verdict: html("span", { class: "fi-verdict" }),
    };
    const item = html("div", { ...OWN_KEYS, role: "option", class: "fi-item" }, parts.number, parts.summary, html("span", { class: "fi-below" }, parts.verdict, parts.more));
    item.addEventListener("click", () => choose(number));
    return {
      node: item,
      set(frame, is) {
        setText(parts.summary, frame.summary);
        setText(parts.more, `${frame.time}, ${formatCount(frame.length)} bytes`);
        setText(parts.verdict, `${frame.sign} ${frame.verdict}`);
        setAttribute(parts.verdict, "class", `fi-verdict fi-${frame.role}`);
        setAttribute(item, "aria-selected", String(is));
        setAttribute(item, "tabindex", is ? "0" : "-1");
      },
    };
  }

  node.addEventListener("keydown", (event) => {
    const here = made.findIndex((one) => one.node === document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: made.length - 1 }[event.key];
    if (to === undefined && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    const next = made[to ?? here];
    if (!next) return;
    next.node.focus();
    choose(made.indexOf(next) + 1);
  });
  return { update };
}

/** The text, a line each; what was tested there stands under it. */
function drawSource(box, lines, fresh) {
  const coloured = colourLines(lines.map(({ text }) => text).join("\n"));
  const rows = lines.flatMap((line, i) => {
    const [sign, words] = MARKS[line.mark];
    const code = html("td", { class: "fi-code" }, ...(coloured[i] ?? []).map(([kind, piece]) => (kind ? html("span", { class: `ed-${kind}` }, piece) : piece)));
    const times = line.times > 1 ? `${formatCount(line.times)}×` : "";
    const mark = html("td", { class: "fi-mark", title: [words, times].filter(Boolean).join(", ") || undefined }, sign);
    if (words) mark.append(html("span", { class: "xdp-hidden" }, words));
    const row = html("tr", { class: `fi-line fi-line-${line.mark || "off"}` }, html("th", { scope: "row" }, String(i + 1)), mark, code);
    return [row, ...line.said.map(makeRemark), ...(line.more ? [makeRemark([`and ${formatCount(line.more)} more`, "", "", false])] : [])];
  });
  const view = box.closest(".fi-scroll");
  const top = view.scrollTop;
  box.replaceChildren(...rows);
  if (!fresh) view.scrollTop = top;
  const target = box.querySelector(".fi-line-decides") ?? [...box.querySelectorAll(".fi-line-way")].at(-1);
  if (fresh && target) view.scrollTop = target.offsetTop - view.clientHeight / 2;
}

function makeRemark([words, taken, inside, decides]) {
  const said = html("td", { class: "fi-said" });
  if (inside) said.append(html("span", { class: "fi-inside" }, inside));
  said.append(html("span", { class: "fi-words" }, words));
  if (taken) said.append(html("span", { class: "fi-taken" }, `jump taken: ${taken}`));
  if (decides) said.append(html("b", { class: "fi-decides" }, "the verdict hangs on this"));
  return html("tr", { class: `fi-remark${decides ? " fi-remark-decides" : ""}` }, html("td"), html("td"), said);
}

function drawTable(parts, { head = [], steps = [], caption = "" }) {
  setText(parts.caption, caption);
  parts.head.replaceChildren(...head.map((text, i) => html("th", { scope: "col" }, text || (i ? "decides" : "step"))));
  parts.steps.replaceChildren(
    ...steps.map((row) => html("tr", {}, ...row.map((text, i) => html(i ? "td" : "th", i ? {} : { scope: "row" }, text)))),
  );
}

function makeParts(el) {
  const button = (text, title) => html("button", { ...OWN_KEYS, type: "button", class: "xdp-button", title }, text);
  const parts = {
    ...liveParts(),
    program: html("span", { class: "xdp-muted" }),
    again: button("Replay all again", "With the program that is there now, and its maps as they are now"),
    clear: button("Clear", "Forget these frames, and capture again"),
    choices: html("div"),
    list: html("div", { role: "listbox", class: "fi-list", "aria-label": "Frames" }),
    captures: html("p", { class: "fi-hint xdp-muted" }),
    full: html("p", { class: "fi-hint" }),
    empty: html("p", { class: "fi-empty" }, "No frame has come yet. Send some: lk.send_frames, lk.ping, lk.send_udp …"),
    chosen: html("span", { class: "xdp-muted" }),
    verdict: html("span", { class: "fi-verdict" }),
    sentence: html("p", { class: "fi-sentence" }),
    trouble: html("p", { class: "fi-trouble" }),
    wrote: html("span", { class: "xdp-muted" }),
    fields: html("tbody"),
    grid: html("div", { role: "grid", class: "fi-grid", "aria-label": "Bytes of the frame" }),
    about: html("p", { class: "fi-about", "aria-live": "polite" }),
    input: html("input", { ...OWN_KEYS, class: "fi-input", type: "text", size: "8", maxlength: "96", spellcheck: "false", autocomplete: "off", "aria-label": "New bytes from the chosen one on, in hex" }),
    replay: button("Change and replay", "As a new frame of the list; the length stays"),
    file: html("b", { class: "fi-file" }),
    source: html("tbody"),
    caption: html("caption"),
    head: html("tr"),
    steps: html("tbody"),
    changes: html("ul", { class: "fi-changes" }),
    notes: html("ul", { class: "fi-notes" }),
  };
  parts.work = html("div", { hidden: true }, parts.choices, parts.send);
  parts.editor = html("fieldset", { class: "fi-edit" }, html("legend", { class: "xdp-hidden" }, "Edit and replay"), parts.input, parts.replay);
  const heads = ["field", "bytes", "value"].map((text) => html("th", { scope: "col" }, text));
  const table = html("table", { class: "fi-fields" }, html("thead", {}, html("tr", {}, ...heads)), parts.fields);
  const legend = html(
    "p",
    { class: "fi-legend xdp-muted" },
    ...[
      ["fi-read", "read by the program"],
      ["fi-read fi-decided", "the verdict hangs on it"],
      ["fi-changed", "rewritten"],
    ].map(([names, words]) => html("span", {}, html("span", { class: `fi-byte ${names}`, "aria-hidden": "true" }, "00"), ` ${words}`)),
  );
  parts.code = html(
    "div",
    { class: "fi-source" },
    html("div", { class: "fi-source-head" }, parts.file, html("span", { class: "xdp-muted" }, "● on the frame's way  ▶ the verdict hangs on it")),
    html("div", { ...OWN_KEYS, class: "fi-scroll", tabindex: "0", role: "region", "aria-label": "Source with the frame's way" }, html("table", { class: "fi-lines" }, parts.source)),
  );
  parts.changed = html("div", {}, html("p", { class: "fi-sub" }, "What it wrote into its maps (copies: nothing of yours was changed)"), parts.changes);
  const steps = html("div", { ...OWN_KEYS, class: "fi-scroll-x", tabindex: "0", role: "region", "aria-label": "Step by step" }, html("table", { class: "fi-steps" }, parts.caption, html("thead", {}, parts.head), parts.steps));
  parts.body = html(
    "div",
    { class: "fi-body" },
    html("div", { class: "fi-side" }, parts.list, parts.full, parts.captures),
    html(
      "div",
      { class: "fi-main" },
      html("div", { class: "fi-told" }, html("div", { class: "fi-told-head" }, parts.chosen, parts.verdict, parts.wrote), parts.sentence, parts.trouble),
      html(
        "div",
        { class: "fi-frame" },
        html("div", { class: "fi-bytes" }, parts.grid, parts.about, parts.editor, legend),
        html("div", { ...OWN_KEYS, class: "fi-scroll-x fi-fields-box", tabindex: "0", role: "region", "aria-label": "Fields of the frame" }, table),
      ),
    ),
  );
  parts.root = html(
    "section",
    { class: "xdp-panel fi-panel" },
    html("div", { class: "xdp-header" }, html("div", { class: "xdp-who" }, parts.title, parts.program), html("div", { class: "xdp-do" }, parts.again, parts.clear)),
    parts.notice,
    parts.problem,
    parts.work,
    parts.empty,
    parts.body,
    parts.code,
    html("details", { class: "fi-details" }, html("summary", { ...OWN_KEYS }, "Step by step as a table, and what it wrote"), steps, parts.changed, parts.notes),
    parts.said,
  );
  place(el, parts.root);
  return parts;
}

export default { render };
