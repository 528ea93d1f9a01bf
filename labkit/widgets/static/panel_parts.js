// The panel's parts, still empty: its frame, its log, and what it says to those who listen.

/** The empty panel. */
function makeFrame(el) {
  const name = html("b", { class: "xdp-title" });
  const title = html("span", { class: "xdp-muted" });
  const pill = html("span", { class: "xdp-pill" });
  const go = html("button", { ...OWN_KEYS, type: "button", class: "xdp-button xdp-primary" }, "Start");
  const reset = html(
    "button",
    {
      ...OWN_KEYS,
      type: "button",
      class: "xdp-button",
      title: "Stop the traffic and count from zero; the programs stay",
    },
    "Reset",
  );
  const pause = html(
    "button",
    {
      ...OWN_KEYS,
      type: "button",
      class: "xdp-button",
      "aria-pressed": "false",
      title: "Hold the picture still; the traffic goes on",
    },
    "Pause",
  );
  const art = html("div", { class: "xdp-topology" });
  const notes = html("p", { class: "xdp-notes" });
  const notice = html("p", { class: "xdp-notice", role: "status" });
  const problem = html("p", { class: "xdp-error", role: "alert" });
  const chart = html("div", { class: "xdp-cell" }, html("p", { class: "xdp-heading" }, "Packets a second, last 30 s"));
  const ledger = html("div", { class: "xdp-cell" });
  const controls = html("div", { class: "xdp-controls" });
  const more = html("div", { class: "xdp-controls xdp-inner" });
  const moreBox = html("details", { class: "xdp-more xdp-fold" }, html("summary", { ...OWN_KEYS }, "More traffic, offloads"), more);
  const statistics = html("div", { class: "xdp-more" });
  const button = (text, title) => html("button", { ...OWN_KEYS, type: "button", class: "xdp-button", title }, text);
  const csv = button("CSV", "Save the ledger and the rates of the last 30 s as a table");
  const png = button("PNG", "Save the picture and the chart");
  const log = html("ol", { class: "xdp-log", "aria-label": "What happened" });
  const summary = html("p", { class: "xdp-hidden", "aria-live": "polite" });
  const root = html(
    "section",
    { class: "xdp-panel" },
    html(
      "div",
      { class: "xdp-header" },
      html("div", { class: "xdp-who" }, name, title, pill),
      html("div", { class: "xdp-do" }, go, reset, pause, csv, png),
    ),
    notice,
    problem,
    art,
    notes,
    html("div", { class: "xdp-halves" }, chart, ledger),
    controls,
    moreBox,
    statistics,
    log,
    summary,
  );
  el.classList.add("xdp-root");
  el.replaceChildren(root);
  return {
    root,
    name,
    title,
    pill,
    go,
    reset,
    pause,
    csv,
    png,
    more,
    moreBox,
    art,
    notes,
    notice,
    problem,
    chart,
    ledger,
    controls,
    statistics,
    log: makeLog(log),
    summary: makeSummary(summary),
  };
}

/** The last few events in words; a line is made once and never changed. */
function makeLog(list) {
  const lines = [];
  const keyOf = ({ t_s, level, text }) => `${t_s}|${level}|${text}`;
  return {
    update(events) {
      const last = events.slice(-5);
      const keys = last.map(keyOf);
      if (keys.join("\n") !== lines.map((l) => l.key).join("\n")) {
        for (const line of lines.splice(0)) if (!keys.includes(line.key)) line.node.remove();
        const kept = new Map([...list.children].map((node) => [node.dataset.key, node]));
        last.forEach((event, i) => {
          const word = { warning: "Mind: ", error: "Failed: " }[event.level] ?? "";
          const node =
            kept.get(keys[i]) ??
            html(
              "li",
              { "data-key": keys[i], class: `xdp-${event.level}` },
              html("b", {}, formatTime(event.t_s)),
              ` ${word}${event.text}`,
            );
          list.append(node);
          lines.push({ key: keys[i], node });
        });
      }
      setShown(list, lines.length > 0);
    },
  };
}

/** A sentence for those who listen: at most every two seconds, and only when there is news in two digits. */
function makeSummary(node) {
  let words = "";
  const speak = throttle(() => setText(node, words), 2000);
  return {
    update({ state, series = [], ledger }) {
      const rates = series.filter((s) => s.pps > QUIET_PPS).map((s) => `${s.label} ${formatRate(s.pps, 2)}`);
      const missing = ledger?.unaccounted;
      const total =
        state === "running" || !Number.isFinite(missing) ? "" : ` ${formatCount(missing)} packets unaccounted for.`;
      const next = `${STATE_WORDS[state] ?? "idle"}${rates.length ? `: ${rates.join(", ")}` : ""}.${total}`;
      if (next === words) return;
      words = next;
      speak();
    },
    stop: speak.cancel,
  };
}
