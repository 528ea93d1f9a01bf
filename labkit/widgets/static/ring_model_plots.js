// How it went: what the rings hold, when the CPU sleeps, and how many pages are taken, over the simulated time.

const PLOT = { height: 150, left: 58, right: 10, top: 10, bottom: 22, sleep: 9 };
const SHOWN_MOMENTS = 16;

/** Draws into `box`; returns {update(history, asleep), resize(width)}. */
function makePlots(box) {
  const rings = makePlot("Packets in the rings", [
    { key: "rx", label: "receive ring", role: "pass" },
    { key: "tx", label: "transmit ring", role: "redirect" },
  ]);
  const pages = makePlot("Pages held", [{ key: "pages", label: "pages", role: "tx" }]);
  const sleep = makeSleep();
  const table = makeMoments();
  box.append(rings.node, sleep.node, pages.node, table.node);
  let latest = null;
  let width = 420;

  function draw() {
    if (!latest) return;
    const { rx_ring, tx_ring, memory, pages: held } = latest;
    rings.draw(latest, width, rx_ring === tx_ring ? [[rx_ring, "both are full"]] : [[rx_ring, "receive ring full"], [tx_ring, "transmit ring full"]]);
    const peak = Math.max(0, ...held);
    pages.draw(latest, width, memory <= 2 * peak ? [[memory, "all the memory"]] : []);
    sleep.draw(latest, width);
  }

  return {
    update(history, asleep) {
      latest = history;
      sleep.tell(asleep);
      table.update(history);
      draw();
    },
    resize(next) {
      const wide = Math.max(220, Math.floor(next));
      if (wide === width) return;
      width = wide;
      draw();
    },
  };
}

/** One chart of a few lines and levels. */
function makePlot(title, series) {
  const legend = html("ul", { class: "xdp-legend" });
  const art = svg("svg", { class: "xdp-art", height: PLOT.height, role: "img" });
  series.forEach((line, i) => {
    const pen = { class: `xdp-line xdp-stroke-${line.role}`, "stroke-dasharray": DASHES[i] ?? undefined };
    line.path = svg("path", pen);
    const sample = svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("path", { ...pen, d: "M1 4H25" }));
    if (series.length > 1) legend.append(html("li", {}, sample, html("span", {}, line.label)));
  });
  return {
    node: html("div", { class: "rm-plot" }, html("p", { class: "xdp-heading" }, title), legend, art),
    draw(history, width, levels) {
      const values = series.flatMap(({ key }) => history[key]);
      const { top, count } = niceScale(Math.max(1, ...values, ...levels.map(([value]) => value)));
      const [x0, x1, y0, y1] = [PLOT.left, width - PLOT.right, PLOT.height - PLOT.bottom, PLOT.top];
      const x = (us) => (x0 + (us / history.end_us) * (x1 - x0)).toFixed(1);
      const y = (value) => (y0 + (value / top) * (y1 - y0)).toFixed(1);
      setAttribute(art, "width", width);
      setAttribute(art, "viewBox", `0 0 ${width} ${PLOT.height}`);
      const ends = series.map(({ key, label }) => `${label} from ${formatCount(history[key][0])} to ${formatCount(history[key].at(-1))}, at most ${formatCount(Math.max(0, ...history[key]))}`);
      setAttribute(art, "aria-label", `${title} over ${formatMs(history.end_us)}: ${ends.join("; ")}`);
      const grid = Array.from({ length: count + 1 }, (_, i) => (top * i) / count).flatMap((value) => [
        svg("line", { class: "xdp-grid-line", x1: x0, x2: x1, y1: y(value), y2: y(value) }),
        svg("text", { class: "xdp-small xdp-muted", x: x0 - 6, y: Number(y(value)) + 4, "text-anchor": "end" }, formatCount(value)),
      ]);
      const times = [0, 1 / 3, 2 / 3, 1].map((part) =>
        svg("text", { class: "xdp-small xdp-muted", x: x(part * history.end_us), y: PLOT.height - 5, "text-anchor": part === 1 ? "end" : part ? "middle" : "start" }, formatMs(part * history.end_us)),
      );
      const roofs = levels.flatMap(([value, words]) => [
        svg("line", { class: "rm-level", x1: x0, x2: x1, y1: y(value), y2: y(value) }),
        svg("text", { class: "xdp-small xdp-muted rm-halo", x: x1 - 2, y: Number(y(value)) + 13, "text-anchor": "end" }, words),
      ]);
      for (const { key, path } of series) {
        const points = history[key].map((value, i) => `${x(history.at_us[i])} ${y(value)}`);
        setAttribute(path, "d", points.length ? `M${points.join("L")}` : "");
      }
      art.replaceChildren(...grid, ...times, ...series.map(({ path }) => path), ...roofs);
    },
  };
}

/** A strip over the same time: filled while the CPU works, empty while it sleeps. */
function makeSleep() {
  const words = html("span");
  const marks = svg("path", { class: "rm-working" });
  const frame = svg("rect", { class: "rm-strip", y: 1, height: PLOT.sleep });
  const art = svg("svg", { class: "xdp-art", height: PLOT.sleep + 2, role: "img", "aria-label": "When the CPU works, over the same time" }, frame, marks);
  return {
    node: html("div", { class: "rm-plot rm-sleep" }, html("p", { class: "xdp-heading" }, "CPU: filled while it works, ", words), art),
    tell: (asleep) => setText(words, `asleep ${asleep} of the time`),
    draw({ at_us, asleep, end_us }, width) {
      const [x0, x1] = [PLOT.left, width - PLOT.right];
      const x = (us) => x0 + (us / end_us) * (x1 - x0);
      setAttribute(art, "width", width);
      setAttribute(art, "viewBox", `0 0 ${width} ${PLOT.sleep + 2}`);
      setAttribute(frame, "x", x0);
      setAttribute(frame, "width", x1 - x0);
      let d = "";
      at_us.forEach((us, i) => {
        if (asleep[i]) return;
        const until = at_us[i + 1] ?? end_us;
        d += `M${x(us).toFixed(1)} 1h${Math.max(0.2, x(until) - x(us)).toFixed(1)}v${PLOT.sleep}H${x(us).toFixed(1)}z`;
      });
      setAttribute(marks, "d", d);
    },
  };
}

/** Some of the moments as a table. */
function makeMoments() {
  const rows = html("tbody");
  const head = ["time", "receive ring", "transmit ring", "pages held", "CPU"].map((words, i) =>
    html("th", { scope: "col", class: i && i < 4 ? "xdp-n" : undefined }, words),
  );
  const table = html("table", { class: "xdp-ledger" }, html("thead", {}, html("tr", {}, ...head)), rows);
  const details = html("details", { class: "xdp-fold" }, html("summary", { ...OWN_KEYS }, "The charts as a table"), html("div", { class: "xdp-wide" }, table));
  let latest = null;
  const draw = () => {
    if (!details.open || !latest) return;
    const step = Math.max(1, Math.ceil(latest.at_us.length / SHOWN_MOMENTS));
    rows.replaceChildren(
      ...latest.at_us.flatMap((us, i) => (i % step ? [] : [html("tr", {}, ...cells(latest, us, i))])),
    );
  };
  details.addEventListener("toggle", draw);
  return {
    node: details,
    update(history) {
      latest = history;
      draw();
    },
  };
}

function cells({ rx, tx, pages, asleep }, us, i) {
  const number = (value) => html("td", { class: "xdp-n" }, formatCount(value));
  return [html("th", { scope: "row" }, formatMs(us)), number(rx[i]), number(tx[i]), number(pages[i]), html("td", {}, asleep[i] ? "asleep" : "works")];
}

/** Microseconds → "1.25 ms". */
function formatMs(us) {
  return us ? `${Number((us / 1000).toPrecision(3))} ms` : "0";
}
