// The text: a transparent textarea over the same text in colours, with line numbers and marks beside it.

const WORDS =
  "auto break case const continue default do else enum extern for goto if inline register return signed sizeof static struct switch typedef union unsigned void volatile while";
const TYPES =
  "int char bool long short size_t u8 u16 u32 u64 s8 s16 s32 s64 __u8 __u16 __u32 __u64 __be16 __be32 __be64 __always_inline";
const KNOWN = new Map([...WORDS.split(" ").map((w) => [w, "word"]), ...TYPES.split(" ").map((w) => [w, "type"])]);
const TOKEN =
  /(\/\*[^]*?(?:\*\/|(?![^]))|\/\/[^\n]*)|("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(^[ \t]*#[ \t]*\w+(?:[ \t]*<[^>\n]*>)?)|(\b\d\w*\b)|([A-Za-z_]\w*)|([^])/gm;
const COLOURED_UP_TO = 60_000; // characters; a longer text stays plain, so that every key answers at once

/** A text as lines of [kind, piece]; a piece that goes over a line's end is cut there. */
function colourLines(text) {
  const lines = [[]];
  const add = (kind, words) => {
    const pieces = words.split("\n");
    pieces.forEach((piece, i) => {
      if (i) lines.push([]);
      const line = lines[lines.length - 1];
      if (!piece) return;
      if (line.length && line[line.length - 1][0] === kind) line[line.length - 1][1] += piece;
      else line.push([kind, piece]);
    });
  };
  if (text.length > COLOURED_UP_TO) add("", text);
  else
    for (const found of text.matchAll(TOKEN)) {
      const [whole, comment, string, directive, number, name] = found;
      if (comment) add("comment", whole);
      else if (string) add("string", whole);
      else if (directive) add("directive", whole);
      else if (number) add("number", whole);
      else if (name) add(kindOfName(name, text, found.index + name.length), whole);
      else add("", whole);
    }
  return lines;
}

function kindOfName(name, text, end) {
  if (KNOWN.has(name)) return KNOWN.get(name);
  if (/^(?:XDP|ETH_P|IPPROTO|TC_ACT|BPF)_\w+$|^NULL$/.test(name)) return "number";
  return /^\s*\(/.test(text.slice(end, end + 4)) ? "call" : "";
}

/**
 * The remarks that still have their line after an edit: [{remark, line}]. Lines above the edit keep their number, lines
 * below move with the text, and a line that was edited has lost its remark.
 */
function placeRemarks(remarks, before, now) {
  const [old, fresh] = [before.split("\n"), now.split("\n")];
  let same = 0;
  while (same < old.length && same < fresh.length && old[same] === fresh[same]) same++;
  let tail = 0;
  while (tail < old.length - same && tail < fresh.length - same && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail])
    tail++;
  return remarks
    .filter((r) => r.line)
    .map((remark) => {
      if (remark.line <= same) return { remark, line: remark.line };
      if (remark.line > old.length - tail) return { remark, line: remark.line + fresh.length - old.length };
      return null;
    })
    .filter(Boolean);
}

/** The editor proper, in `box`. `changed()` is called after every change by hand, `key(name)` for "run", "keep". */
function makeCode(box, { changed, key, ids }) {
  const numbers = html("div", { class: "ed-numbers", "aria-hidden": "true" });
  const paint = html("pre", { class: "ed-paint", "aria-hidden": "true" });
  const area = html("textarea", {
    ...OWN_KEYS,
    class: "ed-area",
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    autocorrect: "off",
    wrap: "off",
    rows: "1",
    "aria-label": "C source of the program",
    "aria-describedby": ids.hint,
  });
  box.append(numbers, html("div", { class: "ed-sheet" }, paint, area));
  let marks = [];
  let leaving = false;

  /** Puts text where the selection is, in a way that Ctrl+Z takes back. */
  function insert(text) {
    if (!document.execCommand("insertText", false, text)) {
      area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
      touched();
    }
  }

  function touched() {
    draw();
    changed();
  }

  function draw() {
    const lines = colourLines(area.value);
    const at = new Map();
    for (const { remark, line } of marks) at.set(line, [...(at.get(line) ?? []), remark]);
    paint.replaceChildren(...lines.map((line, i) => makeLine(line, at.get(i + 1))));
    numbers.replaceChildren(...lines.map((_, i) => makeNumber(i + 1, at.get(i + 1))));
  }

  /** Whole lines that the selection touches: [start, end]. */
  function selectedLines() {
    const start = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
    const last = area.selectionEnd > area.selectionStart && area.value[area.selectionEnd - 1] === "\n" ? area.selectionEnd - 1 : area.selectionEnd;
    const end = area.value.indexOf("\n", last);
    return [start, end < 0 ? area.value.length : end];
  }

  function indent(back) {
    const [start, end] = selectedLines();
    const old = area.value.slice(start, end);
    if (!back && area.selectionStart === area.selectionEnd) return insert("\t");
    const fresh = old
      .split("\n")
      .map((line) => (back ? line.replace(/^(?:\t| {1,8})/, "") : line && `\t${line}`))
      .join("\n");
    if (fresh === old) return;
    const caret = area.selectionStart === area.selectionEnd ? Math.max(start, area.selectionStart - 1) : null;
    area.setSelectionRange(start, end);
    insert(fresh);
    if (caret === null) area.setSelectionRange(start, start + fresh.length);
    else area.setSelectionRange(caret, caret);
  }

  function newLine() {
    const start = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
    const before = area.value.slice(start, area.selectionStart);
    insert(`\n${before.match(/^[ \t]*/)[0]}${before.trimEnd().endsWith("{") ? "\t" : ""}`);
  }

  area.addEventListener("keydown", (event) => {
    const command = event.ctrlKey || event.metaKey;
    event.stopPropagation();
    if (event.isComposing) return;
    if (event.key === "Escape") {
      key("stop");
      leaving = true;
    }
    else if (event.key === "Tab" && !command && !event.altKey && !leaving && !area.readOnly) {
      event.preventDefault();
      indent(event.shiftKey);
    } else if (event.key === "Enter" && command) {
      event.preventDefault();
      key("run");
    } else if (event.key === "s" && command) {
      event.preventDefault(); // the text is kept in any case, and the browser would save the page
      key("keep");
    } else if (event.key === "Enter" && !event.shiftKey && !event.altKey && !area.readOnly) {
      event.preventDefault();
      newLine();
    }
    if (!["Escape", "Tab", "Shift"].includes(event.key)) leaving = false;
  });
  area.addEventListener("blur", () => (leaving = false));
  area.addEventListener("input", touched);

  return {
    area,
    get text() {
      return area.value;
    },
    /** Another text from elsewhere; one that is being edited is replaced so that Ctrl+Z brings it back. */
    set(text) {
      if (text === area.value) return;
      if (document.activeElement === area) {
        area.setSelectionRange(0, area.value.length);
        insert(text);
        area.setSelectionRange(0, 0);
      } else area.value = text;
      draw();
    },
    mark(next) {
      marks = next;
      draw();
    },
    /** Shows a line, and leaves the caret where it is. */
    reveal(line) {
      paint.children[line - 1]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    },
    /** Shows a line and puts the caret there. */
    go(line, column) {
      const lines = area.value.split("\n");
      const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
      const at = start + Math.min((column || 1) - 1, lines[line - 1]?.length ?? 0);
      area.focus({ preventScroll: true });
      area.setSelectionRange(at, at);
      paint.children[line - 1]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    },
  };
}

function makeLine(pieces, remarks) {
  const node = html("span", { class: "ed-line" });
  const column = remarks?.find((r) => r.column)?.column;
  let at = 1;
  const words = html("span", { class: "ed-words" });
  for (const [kind, text] of pieces.length ? pieces : [["", "\u200b"]]) {
    const here = column && column >= at && column < at + text.length;
    // What is wrong begins in the midst of a piece: it is cut there, and at the end of the word.
    const cut = here ? column - at : 0;
    const length = here ? Math.max(1, text.slice(cut).match(/^\w+|^[^]/)?.[0].length ?? 1) : 0;
    const parts = here ? [text.slice(0, cut), text.slice(cut, cut + length), text.slice(cut + length)] : [text];
    parts.forEach((part, i) => {
      if (!part) return;
      const classes = [kind && `ed-${kind}`, here && i === 1 && "ed-wrong"].filter(Boolean).join(" ");
      words.append(classes ? html("span", { class: classes }, part) : part);
    });
    at += text.length;
  }
  node.append(words);
  if (remarks) {
    const worst = remarks.some((r) => r.kind === "error") ? "error" : "warning";
    node.classList.add(`ed-at-${worst}`);
    const more = remarks.length > 1 ? ` (+${remarks.length - 1})` : "";
    node.append(html("span", { class: "ed-aside" }, html("span", {}, `${remarks[0].meaning || remarks[0].said}${more}`)));
  }
  return node;
}

function makeNumber(number, remarks) {
  if (!remarks) return html("span", {}, String(number));
  const worst = remarks.some((r) => r.kind === "error") ? "error" : "warning";
  return html("span", { class: `ed-number-${worst}` }, `${worst === "error" ? "✗" : "!"} ${number}`);
}
