// The versions that ran: which, when, what they returned; back to one, and what differs.

/** Draws into `box`; `say(message)` tells Python. */
function makeVersions(box, say) {
  const list = html("tbody", {});
  const columns = ["version", "function", "since", "verdicts while it ran", "tag", "do"];
  const whole = html(
    "table",
    { class: "xdp-ledger ed-table ed-versions" },
    html("caption", {}, "Versions"),
    html("thead", {}, html("tr", {}, ...columns.map((text) => html("th", { scope: "col" }, text)))),
    list,
  );
  const diff = makeDiff(say);
  box.append(html("div", { class: "ed-scroll", tabindex: "0", role: "region", "aria-label": "Versions" }, whole), diff.node);
  let shape = "";
  let cells = new Map();
  let of = null;

  function makeRow({ number, name, time, tag, running }) {
    const mix = html("td", { class: "ed-mix" });
    cells.set(number, mix);
    const button = (text, title, work) => {
      const node = html("button", { ...OWN_KEYS, type: "button", class: "xdp-button ed-small", "aria-label": title, "data-key": title }, text);
      node.addEventListener("click", work);
      return node;
    };
    const actions = html(
      "td",
      { class: "ed-actions" },
      button("Compare", `Compare version ${number} with the text`, () => {
        of = of === number ? null : number;
        say({ type: "diff", of, to: null });
      }),
    );
    if (!running) actions.append(button("Go back", `Go back to version ${number}`, () => say({ type: "back", number })));
    return html(
      "tr",
      { class: running ? "ed-running" : undefined },
      html("th", { scope: "row" }, running ? `${number} ● runs` : String(number)),
      html("td", {}, html("code", {}, name)),
      html("td", {}, time),
      mix,
      html("td", {}, html("code", { class: "ed-tag" }, tag.slice(0, 8))),
      actions,
    );
  }

  return {
    show(versions) {
      setShown(box, versions.length > 0);
      const next = JSON.stringify(versions.map(({ verdicts, ...fixed }) => fixed));
      if (next !== shape) {
        shape = next;
        const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
        cells = new Map();
        list.replaceChildren(...versions.map(makeRow));
        if (focused) ([...list.querySelectorAll("button")].find((b) => b.dataset.key === focused) ?? list.querySelector("button"))?.focus();
      }
      for (const { number, verdicts } of versions) setText(cells.get(number), mixInWords(verdicts));
    },
    /** A diff from Python, asked for here or in a cell. */
    compare(found, versions) {
      of = found.of ?? null;
      diff.show(found, versions);
    },
    enable(on) {
      for (const button of box.querySelectorAll("button, select")) button.disabled = !on;
    },
  };
}

function mixInWords(verdicts) {
  if (verdicts === null) return "keeps no count";
  return verdicts.length ? verdicts.map(([name, count]) => `${name} ${formatCount(count)}`).join(", ") : "no packet yet";
}

function makeDiff(say) {
  const title = html("b", {});
  const choice = html("select", { ...OWN_KEYS, class: "ed-select", "aria-label": "Compare with" });
  const close = html("button", { ...OWN_KEYS, type: "button", class: "xdp-button ed-small" }, "Close");
  const lines = html("pre", { class: "ed-diff", tabindex: "0", "aria-label": "What differs" });
  const node = html("div", { class: "ed-compare", hidden: true }, html("p", { class: "ed-compare-head" }, title, choice, close), lines);
  let of = null;
  const target = () => (choice.value === "" ? null : Number(choice.value));
  choice.addEventListener("change", () => say({ type: "diff", of, to: target() }));
  close.addEventListener("click", () => say({ type: "diff", of: null }));

  return {
    node,
    show(found, versions) {
      const fresh = node.hidden;
      of = found.of ?? null;
      setShown(node, of !== null);
      if (of === null) return;
      setText(title, `From version ${of} to`);
      choice.replaceChildren(
        html("option", { value: "" }, "the text"),
        ...versions.filter((v) => v.number !== of).map((v) => html("option", { value: v.number }, `version ${v.number}`)),
      );
      choice.value = found.to ?? "";
      const rows = found.lines.map(([sign, text]) =>
        html("span", { class: { "+": "ed-plus", "-": "ed-minus", "@": "ed-hunk" }[sign] }, sign === "@" ? `${text}\n` : `${sign} ${text}\n`),
      );
      if (!rows.length) rows.push("No difference.");
      if (found.more) rows.push(`… and ${found.more} more lines`);
      lines.replaceChildren(...rows);
      if (fresh) node.scrollIntoView({ block: "nearest" });
    },
  };
}
