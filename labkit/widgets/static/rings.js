// The rings of an AF_XDP socket: controls where a program is at work, the rings, the memory, what was lost.

function render({ model, el }) {
  const parts = makeView(el);
  const memory = makeMemory();
  parts.memory.append(memory.node);
  let rings = [];

  function draw(state) {
    if (rings.length !== state.rings.length) {
      rings = state.rings.map(makeRing);
      parts.rings.replaceChildren(...rings.map((ring) => ring.node));
    }
    state.rings.forEach((ring, i) => rings[i].update(ring));
    memory.update(state.places, state.frames);
    const lost = state.lost.filter(([, n]) => n);
    setText(parts.lost, lost.length ? `Lost: ${lost.map(([words, n]) => `${formatCount(n)} ${words}`).join(", ")}` : "Nothing lost");
    parts.lost.classList.toggle("xdp-bad", lost.length > 0);
    setText(parts.taken, state.taken === null ? "" : `${formatCount(state.taken)} packets taken`);
  }

  return goLive(model, parts, { draw, inWords, buttons: [parts.send], start: "Let packets come", stop: "Stop the packets" });
}

function inWords({ rings, places, lost }) {
  const filled = rings.map((ring) => `${ring.name} ${ring.filled} of ${ring.size}`).join(", ");
  const where = places.map(([place, number]) => `${place} ${number}`).join(", ");
  const gone = lost.reduce((sum, [, number]) => sum + number, 0);
  return `In the rings: ${filled}. Frames: ${where}. Packets lost: ${gone}.`;
}

function makeView(el) {
  const parts = {
    ...liveParts(),
    taken: html("span", { class: "xdp-muted" }),
    lost: html("span", {}),
    choices: html("div", { class: "rg-choices" }),
    rings: html("div", { class: "rg-rings" }),
    memory: html("div"),
  };
  parts.work = html("div", { class: "rg-work" }, parts.choices, parts.send);
  parts.root = html(
    "section",
    { class: "xdp-panel rg-panel" },
    html("div", { class: "xdp-header" }, html("div", { class: "xdp-who" }, parts.title, parts.taken), html("div", { class: "xdp-do" }, parts.lost)),
    parts.notice,
    parts.problem,
    parts.work,
    parts.rings,
    parts.memory,
    html("p", { class: "xdp-notes" }, "Outer mark: where the next one is put in. Inner mark: where the next one is taken out. Between them is what the ring holds."),
    parts.said,
  );
  place(el, parts.root);
  return parts;
}

export default { render };
