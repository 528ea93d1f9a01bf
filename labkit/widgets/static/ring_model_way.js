// A packet's way through the ring model, station by station, what is lost at each, and the page's way back below.

const GAUGE = { box: 104, middle: 52, radius: 40, width: 12 };

/** Draws into `box`; returns {update(way)}. */
function makeWay(box) {
  const [comes, goes] = [makeWire("wire", "offered"), makeWire("wire", "sent")];
  const [rx, tx] = [makeRingStation("receive ring", "receive ring full"), makeRingStation("transmit ring", "transmit ring full")];
  const cpu = makeCpu();
  const back = makeBack();
  const stations = html("div", { class: "rm-stations" }, ...[comes, rx, cpu, tx, goes].map((each) => each.node));
  box.append(stations, back.node);
  return {
    update(way) {
      comes.update(way.offered, "to the first card");
      rx.update(way.rx, way.lost);
      cpu.update(way);
      tx.update(way.tx, way.lost);
      goes.update(way.sent, `by the second card, of ${way.line} at most`);
      back.update(way);
    },
  };
}

function makeStation(name, ...inner) {
  return html("div", { class: "rm-station" }, html("div", { class: "rm-name" }, name), ...inner);
}

function makeWire(name, verb) {
  const rate = html("b", { class: "rm-rate" });
  const more = html("div", { class: "xdp-muted rm-small" });
  return {
    node: makeStation(name, rate, html("div", {}, verb), more),
    update(words, rest) {
      setText(rate, words);
      setText(more, rest);
    },
  };
}

/** A ring with an arc as long as it is full on average, and a mark where it was fullest. */
function makeRingStation(name, cause) {
  const { box, middle, radius, width } = GAUGE;
  const around = 2 * Math.PI * radius;
  const circle = (attributes) => svg("circle", { cx: middle, cy: middle, r: radius, fill: "none", "stroke-width": width, ...attributes });
  const arc = circle({ class: "rm-arc", transform: `rotate(-90 ${middle} ${middle})` });
  const peak = svg("path", { class: "rm-peak", d: `M${middle} ${middle - radius - width / 2 - 4}v${width + 8}` });
  const number = svg("text", { class: "rm-mean", x: middle, y: middle + 3, "text-anchor": "middle" });
  const of = svg("text", { class: "rm-of", x: middle, y: middle + 18, "text-anchor": "middle" });
  const art = svg("svg", { viewBox: `0 0 ${box} ${box}`, width: box, height: box, "aria-hidden": "true" }, circle({ class: "rm-track" }), arc, peak, number, of);
  const words = html("div", { class: "xdp-muted rm-small" });
  const lost = makeLoss(cause);
  return {
    node: makeStation(name, art, words, lost.node),
    update({ mean, most, size }, losses) {
      const length = around * Math.min(1, mean / size);
      setAttribute(arc, "stroke-dasharray", `${length.toFixed(1)} ${(around - length).toFixed(1)}`);
      setAttribute(arc, "visibility", mean ? null : "hidden");
      setAttribute(peak, "transform", `rotate(${(360 * Math.min(0.999, most / size)).toFixed(1)} ${middle} ${middle})`);
      setText(number, formatCount(mean));
      setText(of, `of ${formatCount(size)}`);
      setText(words, `${formatCount(mean)} entries taken on average, ${formatCount(most)} at most`);
      lost.update(losses[cause]);
    },
  };
}

function makeCpu() {
  const rate = html("b", { class: "rm-rate" });
  const awake = html("i", { class: "rm-awake" });
  const sleep = html("div", { class: "xdp-muted rm-small" });
  const polls = html("div", { class: "xdp-muted rm-small" });
  const lost = makeLoss("no memory");
  return {
    node: makeStation("CPU", rate, html("div", {}, "received"), html("div", { class: "rm-bar", "aria-hidden": "true" }, awake), sleep, polls, lost.node),
    update(way) {
      setText(rate, way.received);
      setAttribute(awake, "style", `width:${(100 * (1 - way.idle)).toFixed(1)}%`);
      setText(sleep, `asleep ${way.asleep} of the time`);
      setText(polls, `${formatCount(way.budget)} packets a poll; an interrupt at most every ${way.interval}`);
      lost.update(way.lost["no memory"]);
    },
  };
}

/** What is lost here, by its name; a diamond marks where there is some. */
function makeLoss(cause) {
  const mark = html("span", { class: "rm-mark", "aria-hidden": "true" }, "◆");
  const words = html("span");
  const node = html("div", { class: "rm-loss" }, mark, words);
  return {
    node,
    update([packets, share]) {
      node.classList.toggle("rm-some", packets > 0);
      setShown(mark, packets > 0);
      setText(words, packets ? `${cause}: ${formatCount(packets)} lost (${share})` : `${cause}: none lost`);
    },
  };
}

function makeBack() {
  const [home, how] = [html("b"), html("span", { class: "xdp-muted" })];
  const [held, most, ratio, fresh] = [html("b"), html("span", { class: "xdp-muted" }), html("b"), html("span", { class: "xdp-muted" })];
  const again = html("i", { class: "rm-again" });
  const [up, down] = [html("span", { class: "rm-up", "aria-hidden": "true" }, "↑"), html("span", { class: "rm-down", "aria-hidden": "true" }, "↓")];
  const node = html(
    "div",
    { class: "rm-back" },
    up,
    html(
      "div",
      { class: "rm-home" },
      html("div", {}, html("span", { class: "xdp-muted" }, "the page's way back: "), home),
      html("div", { class: "rm-small" }, how),
      html(
        "div",
        { class: "rm-pages" },
        html("div", {}, held, " pages held", html("br"), most),
        html("div", {}, ratio, " of buffers recycled", html("div", { class: "rm-bar", "aria-hidden": "true" }, again), fresh),
      ),
    ),
    down,
  );
  return {
    node,
    update(way) {
      node.classList.toggle("rm-broken", way.broken);
      setText(up, way.broken ? "✗" : "↑");
      setText(home, way.home);
      setText(how, way.how);
      setText(held, formatCount(way.held));
      setText(most, `${formatCount(way.most)} at most, of ${formatCount(way.memory)}`);
      setText(ratio, way.ratio_words);
      setText(fresh, `${formatCount(way.recycled)} recycled, lost packets’ among them; ${formatCount(way.fresh)} new pages`);
      setAttribute(again, "style", `width:${(100 * way.ratio).toFixed(1)}%`);
    },
  };
}
