// Rates of the last 30 seconds as lines. The past is kept here, bounded; Python sends only the present.

const SPAN_S = 30;
const SLOTS = 330;
const MAX_SERIES = 10;
const DASHES = [null, "7 3", "2 3", "9 3 2 3", "1 4", "14 4"];
const CHART = { height: 176, left: 58, right: 8, top: 10, bottom: 24 };

/** Draws into `box`; returns {add(series, now_s), resize(width), clear()}. */
function makeChart(box) {
  const legend = html("ul", { class: "xdp-legend" });
  const art = svg("svg", {
    class: "xdp-art",
    role: "img",
    height: CHART.height,
    "aria-label": "Rates of the last 30 seconds; the list above gives the present values",
  });
  const grid = [0, 1, 2, 3, 4].map(() => ({
    line: svg("line", { class: "xdp-grid-line" }),
    text: svg("text", { class: "xdp-small xdp-muted", "text-anchor": "end" }),
  }));
  const ticks = [30, 20, 10, 0].map((s) => {
    const node = svg("text", { class: "xdp-small xdp-muted", y: CHART.height - 6 });
    setText(node, s ? `−${s} s` : "now");
    return { s, node };
  });
  const lines = svg("g");
  art.append(...grid.flatMap((g) => [g.line, g.text]), ...ticks.map((t) => t.node), lines);
  box.append(legend, art);
  const times = new Float64Array(SLOTS).fill(NaN);
  const series = new Map();
  let head = 0;
  let width = 420;

  function lineFor({ key, label, role }) {
    let line = series.get(key);
    if (!line && series.size < MAX_SERIES) {
      const dash = DASHES[series.size % DASHES.length];
      const path = svg("path", { class: `xdp-line xdp-stroke-${role}`, "stroke-dasharray": dash ?? undefined });
      const sample = svg(
        "svg",
        { width: 26, height: 8, "aria-hidden": "true" },
        svg("path", { d: "M1 4H25", class: `xdp-line xdp-stroke-${role}`, "stroke-dasharray": dash ?? undefined }),
      );
      const value = html("b");
      const item = html("li", {}, sample, html("span", {}, label), value);
      line = { label, path, value, item, values: new Float64Array(SLOTS).fill(NaN) };
      lines.append(path);
      legend.append(item);
      series.set(key, line);
    }
    return line;
  }

  function draw(now) {
    let peak = 0;
    for (const { values } of series.values()) {
      for (let i = 0; i < SLOTS; i++) if (now - times[i] <= SPAN_S && values[i] > peak) peak = values[i];
    }
    const { top, count } = niceScale(peak);
    const [x0, x1] = [CHART.left, width - CHART.right];
    const [y0, y1] = [CHART.height - CHART.bottom, CHART.top];
    grid.forEach(({ line, text }, i) => {
      setShown(line, i <= count);
      setText(text, i > count ? "" : i ? axisRate((top * i) / count) : "0");
      const y = y0 + ((y1 - y0) * Math.min(i, count)) / count;
      for (const [name, value] of [
        ["x1", x0],
        ["x2", x1],
        ["y1", y],
        ["y2", y],
        ["display", i > count ? "none" : null],
      ])
        setAttribute(line, name, value);
      setAttribute(text, "x", x0 - 6);
      setAttribute(text, "y", y + 4);
    });
    for (const { path, values } of series.values()) {
      let d = "";
      let before = NaN;
      for (let k = 0; k < SLOTS; k++) {
        const i = (head + k) % SLOTS;
        const age = now - times[i];
        if (!(age <= SPAN_S) || Number.isNaN(values[i])) continue;
        const x = Math.round((x1 - (age / SPAN_S) * (x1 - x0)) * 10) / 10;
        const y = Math.round((y0 + (values[i] / top) * (y1 - y0)) * 10) / 10;
        d += times[i] - before < 1.5 ? `L${x} ${y}` : `M${x} ${y}`;
        before = times[i];
      }
      path.setAttribute("d", d);
    }
  }

  return {
    art,
    inWords: () => [...series.values()].map((line) => `${line.label} ${line.value.textContent}`).join(" · "),
    /** Everything held, oldest first: {names, rows of [seconds ago, packets a second …]}. */
    history() {
      const latest = times[(head + SLOTS - 1) % SLOTS];
      const kept = Array.from({ length: SLOTS }, (_, k) => (head + k) % SLOTS).filter((i) => times[i] <= latest);
      const lines = [...series.values()];
      return {
        names: lines.map((line) => line.label),
        rows: kept.map((i) => [(latest - times[i]).toFixed(1), ...lines.map((line) => line.values[i])]),
      };
    },
    add(present, now) {
      times[head] = now;
      for (const line of series.values()) line.values[head] = NaN;
      const named = new Set();
      for (const one of present) {
        const line = lineFor(one);
        if (!line) continue;
        named.add(one.key);
        line.values[head] = one.pps;
        setText(line.value, formatRate(one.pps));
      }
      for (const [key, line] of series) if (!named.has(key)) setText(line.value, "–");
      head = (head + 1) % SLOTS;
      draw(now);
    },
    resize(next) {
      width = Math.max(220, Math.floor(next));
      setAttribute(art, "width", width);
      setAttribute(art, "viewBox", `0 0 ${width} ${CHART.height}`);
      for (const { s, node } of ticks) {
        setAttribute(node, "x", width - CHART.right - (s / SPAN_S) * (width - CHART.right - CHART.left));
        setAttribute(node, "text-anchor", s === 0 ? "end" : s === SPAN_S ? "start" : "middle");
      }
      draw(times[(head + SLOTS - 1) % SLOTS]);
    },
    clear() {
      times.fill(NaN);
      for (const { path, item } of series.values()) {
        path.remove();
        item.remove();
      }
      series.clear();
    },
  };
}

/** A rate for the axis, without the zeros that say nothing: "1.50 Mpps" → "1.5 Mpps". */
function axisRate(pps) {
  return formatRate(pps)
    .replace(/(\.\d*?)0+ /, "$1 ")
    .replace(". ", " ");
}

/** A round end of the axis and the number of steps to it: 5.3e6 → {top: 6e6, count: 3}. */
function niceScale(peak) {
  if (!(peak > 0)) return { top: 1000, count: 2 };
  const size = 10 ** Math.floor(Math.log10(peak));
  for (const [top, count] of [
    [1, 2],
    [1.5, 3],
    [2, 4],
    [3, 3],
    [4, 4],
    [6, 3],
    [8, 4],
    [10, 2],
    [15, 3],
  ]) {
    if (peak <= top * size * 0.98) return { top: top * size, count };
  }
  return { top: 20 * size, count: 4 };
}
