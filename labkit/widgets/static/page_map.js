// Where every page of a lab's pools is: the pool above, the way of a frame below, and sums that agree.

function render({ model, el }) {
  const parts = makeView(el);
  const pools = makePools();
  parts.pools.append(pools.node);
  parts.read.addEventListener("click", () => model.send({ type: "read" }));
  let spots = null;

  function draw(state) {
    if (!spots) {
      spots = state.spots.map(makeSpot);
      state.spots.forEach((spot, i) => (spot.side === "at home" ? parts.home : parts.away).append(spots[i].node));
    }
    const each = squareOf(Math.max(0, ...state.spots.map((spot) => spot.pages ?? 0)));
    state.spots.forEach((spot, i) => spots[i].update(spot, each));
    setText(parts.taken, formatCount(state.held ?? NaN));
    setText(parts.given, formatCount(state.released ?? NaN));
    setText(parts.sum, state.sum);
    parts.sum.classList.toggle("xdp-bad", !state.adds);
    setText(parts.frames, state.frames);
    setText(parts.key, `a square: ${each === 1 ? "1 page" : `${formatCount(each)} pages`}; full at home, hollow away`);
    pools.update(state.pools, state.more);
    setShown(parts.pools, state.pools.length > 0);
  }

  const buttons = [parts.send, parts.read];
  return goLive(model, parts, { draw, inWords: (state) => state.said, buttons, start: "Let frames come", stop: "Stop the frames" });
}

function makeView(el) {
  const parts = {
    ...liveParts(),
    frames: html("span", { class: "xdp-muted" }),
    key: html("span", { class: "xdp-muted pm-key" }),
    read: html("button", { ...OWN_KEYS, type: "button", class: "xdp-button" }, "Read the socket"),
    choices: html("div", { class: "pm-choices" }),
    taken: html("b"),
    given: html("b"),
    sum: html("p", { class: "pm-sum" }),
    pools: html("div"),
  };
  const allocator = html(
    "div",
    { class: "pm-spot pm-allocator" },
    html("div", { class: "pm-name" }, "page allocator"),
    html("div", { class: "pm-line" }, html("span", { class: "xdp-muted" }, "taken from it"), parts.taken),
    html("div", { class: "pm-line" }, html("span", { class: "xdp-muted" }, "given back"), parts.given),
  );
  parts.home = html("div", { class: "pm-row", role: "group", "aria-label": "At home" }, allocator);
  parts.away = html("div", { class: "pm-row", role: "group", "aria-label": "Away, in the order of a frame's way" });
  parts.work = html("div", { class: "pm-work" }, parts.choices, html("div", { class: "pm-buttons" }, parts.read, parts.send));
  parts.root = html(
    "section",
    { class: "xdp-panel pm-panel" },
    html("div", { class: "xdp-header" }, html("div", { class: "xdp-who" }, parts.title, parts.frames), html("div", { class: "xdp-do" }, parts.key)),
    parts.notice,
    parts.problem,
    parts.work,
    html(
      "div",
      { class: "pm-map" },
      parts.home,
      html("div", { class: "pm-between xdp-muted" }, html("span", {}, "↓ out, with a frame"), html("span", {}, "↑ home, when the frame's end has come")),
      parts.away,
      parts.sum,
    ),
    parts.pools,
    parts.said,
  );
  place(el, parts.root);
  return parts;
}

export default { render };
