// C beside the instructions it became: a line chosen on one side is marked on the other.

const LOOK_MS = 2000;
const MEASURES = { instructions: "instructions", jited: "bytes of machine code" };

function render({ model, el }) {
  const shown = model.get("shown");
  const parts = makeParts(shown);
  el.classList.add("xdp-root", "ed-root", "bc-root");
  el.replaceChildren(parts.root);
  const costs = new Map(shown.costs.map((cost) => [cost.key, cost]));
  const jited = shown.costs.some((cost) => cost.jited !== null);
  let form = shown.forms[0];
  let measure = "instructions";
  let chosen = "";
  let lines = []; // {key, node, words}
  let rows = []; // {row, node}
  let found = -1;

  const choices = makeControls(parts.choices, (id, value) => {
    if (id === "form") form = shown.forms.find((each) => each.label === value);
    else measure = Object.keys(MEASURES).find((name) => MEASURES[name] === value);
    draw();
  });
  const value = (cost) => (cost ? (measure === "jited" ? cost.jited : cost[form.name]) ?? 0 : 0);

  function draw() {
    const controls = [];
    if (shown.forms.length > 1)
      controls.push({ id: "form", label: "Instructions", kind: "segmented", options: shown.forms.map((f) => f.label), value: form.label });
    if (jited) controls.push({ id: "measure", label: "A line's cost", kind: "segmented", options: Object.values(MEASURES), value: MEASURES[measure] });
    choices.update(controls);
    setShown(parts.choices, controls.length > 0);
    drawLines();
    drawRows();
    mark();
    look();
  }

  function drawLines() {
    const most = Math.max(1, ...shown.costs.map(value));
    lines = [];
    const coloured = colourLines(shown.source.replace(/\n$/, ""));
    const own = coloured.map((pieces, i) => line(`${shown.file}:${i + 1}`, i + 1, pieces, most));
    const others = shown.costs.filter((cost) => cost.file !== shown.file || cost.number > coloured.length);
    const bodies = [html("tbody", {}, ...own)];
    for (const file of [...new Set(others.map((cost) => cost.file))]) {
      const head = html("tr", { class: "bc-file" }, html("th", { colspan: 4, scope: "rowgroup" }, `from ${file}`));
      const there = others.filter((cost) => cost.file === file);
      bodies.push(html("tbody", {}, head, ...there.map((cost) => line(cost.key, cost.number, colourLines(cost.text.trim())[0], most))));
    }
    setText(parts.measured, measure === "jited" ? "bytes" : "instr.");
    parts.table.replaceChildren(parts.thead, ...bodies);
  }

  /** A line of C: number, bar, figure, text. One that became nothing can't be chosen. */
  function line(key, number, pieces, most) {
    const cost = costs.get(key);
    const amount = value(cost);
    const words = pieces.map(([kind, text]) => html("span", { class: kind && `ed-${kind}` }, text));
    const name = cost
      ? html("button", { ...OWN_KEYS, type: "button", class: "bc-number", "aria-pressed": "false", "aria-label": `Line ${number}: ${amount} ${MEASURES[measure]}` }, String(number))
      : String(number);
    const bar = html("i", { class: "bc-bar", style: `width: ${(100 * amount) / most}%` });
    const node = html(
      "tr",
      { class: cost ? "bc-line bc-costs" : "bc-line" },
      html("th", { scope: "row" }, name),
      html("td", { class: "bc-track" }, ...(amount ? [bar] : [])),
      html("td", { class: "xdp-n" }, cost ? String(amount) : ""),
      html("td", { class: "bc-text" }, html("code", {}, ...(words.length ? words : ["\u200b"]))),
    );
    if (cost) node.addEventListener("click", () => choose(chosen === key ? "" : key, "rows"));
    lines.push({ key, node, button: cost ? name : null, words: pieces.map(([, text]) => text).join("") });
    return node;
  }

  function drawRows() {
    rows = form.rows.map((row) => {
      const button = html("button", { ...OWN_KEYS, type: "button", class: "bc-slot", "aria-pressed": "false", disabled: !row.key }, String(row.slot));
      const node = html("li", { class: "bc-row" }, button, html("code", {}, row.words));
      if (row.key) node.addEventListener("click", () => choose(chosen === row.key ? "" : row.key, "lines"));
      return { row, node, button };
    });
    const items = [];
    rows.forEach(({ row, node }, i) => {
      const before = form.rows[i - 1];
      if (before?.function !== row.function) node.dataset.function = row.function;
      if (before && before.key !== row.key) node.classList.add("bc-begins");
      items.push(node);
    });
    if (form.more) items.push(html("li", { class: "xdp-muted" }, `… and ${form.more} more: print(lk.listing(program)) has all of them`));
    parts.list.replaceChildren(...items);
    arrows();
  }

  function arrows() {
    const at = new Map(rows.map(({ row }, i) => [row.slot, i]));
    const jumps = rows.flatMap(({ row }, i) => (row.target !== null && at.has(row.target) ? [{ from: i, to: at.get(row.target) }] : []));
    const width = drawJumps(parts.art, rows.map(({ node }) => node), laneJumps(jumps));
    parts.list.style.setProperty("--bc-margin", `${width}px`);
    markJumps();
  }

  function choose(key, scroll) {
    chosen = key;
    mark();
    if (!key) return;
    const first = scroll === "rows" ? rows.find(({ row }) => row.key === key)?.node : lines.find((each) => each.key === key)?.node;
    show(first);
  }

  /** Scrolls the list that an element is in, and not the page. */
  function show(node) {
    const box = node?.closest(".bc-scroll");
    if (!box) return;
    const [there, here] = [node.getBoundingClientRect(), box.getBoundingClientRect()];
    if (there.top < here.top + 24 || there.bottom > here.bottom) box.scrollTop += there.top - here.top - here.height / 3;
  }

  function mark() {
    for (const { key, node, button } of lines) {
      node.classList.toggle("bc-chosen", key === chosen);
      if (button) setAttribute(button, "aria-pressed", String(key === chosen));
    }
    for (const { row, node, button } of rows) {
      const on = Boolean(chosen) && row.key === chosen;
      node.classList.toggle("bc-chosen", on);
      setAttribute(button, "aria-pressed", String(on));
    }
    markJumps();
    const cost = costs.get(chosen);
    setText(parts.said, cost ? inWords(cost) : "Choose a line of C to see its instructions, or an instruction to see its line.");
  }

  function inWords(cost) {
    const bits = [`${cost.compiled} ${cost.compiled === 1 ? "instruction" : "instructions"} as compiled`];
    if (cost.kernel !== null) bits.push(`${cost.kernel} as the kernel rewrote it`);
    if (cost.jited !== null) bits.push(`${cost.jited} bytes of machine code`);
    return `${cost.file}, line ${cost.number}: ${bits.join(", ")}.`;
  }

  function markJumps() {
    for (const node of parts.art.children) {
      const on = Boolean(chosen) && [node.dataset.from, node.dataset.to].some((i) => rows[i]?.row.key === chosen);
      node.classList.toggle("bc-on", on);
    }
  }

  // The search: in both lists, Enter goes to the next.
  function look() {
    const wanted = parts.search.value.trim().toLowerCase();
    const hits = [];
    for (const each of [...lines, ...rows.map(({ row, node }) => ({ node, words: `${row.slot} ${row.words}` }))]) {
      const hit = Boolean(wanted) && each.words.toLowerCase().includes(wanted);
      each.node.classList.toggle("bc-hit", hit);
      if (hit) hits.push(each.node);
    }
    setText(parts.hits, wanted ? `${hits.length} ${hits.length === 1 ? "place" : "places"}` : "");
    return hits;
  }
  parts.search.addEventListener("input", () => {
    found = -1;
    show(look()[0]);
  });
  parts.search.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") {
      parts.search.value = "";
      look();
    } else if (event.key === "Enter") {
      const hits = look();
      if (!hits.length) return;
      found = (found + 1) % hits.length;
      show(hits[found]);
      setText(parts.hits, `${found + 1} of ${hits.length}`);
    }
  });

  function drawState() {
    const { notice = "" } = model.get("state");
    setText(parts.notice, notice);
    setShown(parts.notice, Boolean(notice));
  }

  let seen = false;
  const sight = new IntersectionObserver(([entry]) => (seen = entry.isIntersecting));
  sight.observe(parts.root);
  const sized = new ResizeObserver(throttle(arrows, 200));
  sized.observe(parts.list);
  const clock = setInterval(() => {
    if (!seen || document.visibilityState !== "visible") return;
    try {
      model.send({ type: "look" });
    } catch {
      clearInterval(clock); // the kernel has gone; what is shown needs none
    }
  }, LOOK_MS);
  model.on("change:state", drawState);
  drawState();
  draw();
  return () => {
    model.off("change:state", drawState);
    clearInterval(clock);
    sight.disconnect();
    sized.disconnect();
    choices.destroy();
  };
}

function makeParts(shown) {
  const parts = {
    notice: html("p", { class: "xdp-notice", role: "status" }),
    choices: html("div", { class: "xdp-controls bc-choices" }),
    search: html("input", { ...OWN_KEYS, type: "search", class: "ed-path", "aria-label": "Search in both lists", placeholder: "search" }),
    hits: html("span", { class: "xdp-muted bc-hits", role: "status" }),
    said: html("p", { class: "bc-said", role: "status" }),
    measured: html("th", { scope: "col", class: "xdp-n" }),
    table: html("table", { class: "xdp-ledger bc-lines" }),
    art: svg("svg", { class: "bc-art", "aria-hidden": "true" }),
    list: html("ol", { class: "bc-rows" }),
  };
  parts.thead = html(
    "thead",
    {},
    html("tr", {}, html("th", { scope: "col" }, "line"), html("th", { scope: "col" }, "cost"), parts.measured, html("th", { scope: "col" }, "C")),
  );
  const facts = shown.facts.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]);
  const code = shown.code
    ? [html("details", { class: "ed-fold" }, html("summary", { ...OWN_KEYS }, "The machine code, byte by byte"), html("pre", { class: "ed-log bc-code", tabindex: 0, "aria-label": "Machine code in hexadecimal" }, shown.code))]
    : [];
  parts.root = html(
    "section",
    { class: "xdp-panel", "aria-label": `Bytecode of ${shown.title}` },
    html(
      "div",
      { class: "xdp-header" },
      html("div", { class: "xdp-who" }, html("b", { class: "xdp-title" }, shown.title)),
      html("div", { class: "xdp-do" }, parts.hits, parts.search),
    ),
    parts.notice,
    ...shown.notes.map((note) => html("p", { class: "ed-note" }, note)),
    parts.choices,
    parts.said,
    html(
      "div",
      { class: "bc-sides" },
      html("div", { class: "bc-scroll", tabindex: 0, role: "region", "aria-label": "C lines and what they cost" }, parts.table),
      html("div", { class: "bc-scroll", tabindex: 0, role: "region", "aria-label": "Instructions" }, html("div", { class: "bc-sheet" }, parts.art, parts.list)),
    ),
    html("div", { class: "bc-facts" }, html("dl", {}, ...facts), ...code),
  );
  return parts;
}

export default { render };
