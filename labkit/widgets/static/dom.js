// Making and changing nodes. Data goes in as text only, never as markup, and only where it differs.

const SVG = "http://www.w3.org/2000/svg";
const written = new WeakMap();

// In JupyterLab's command mode arrows and letters belong to the notebook; on an element with this mark they don't
// (it has to be the very element that has the focus).
const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };

/** An HTML element with attributes and children (nodes or strings). */
function html(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** An SVG element, likewise. */
function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** Sets a node's text; costs nothing where it is the same already. */
function setText(node, text) {
  if (written.get(node) === text) return;
  written.set(node, text);
  node.textContent = text;
}

/** Sets an attribute, or removes it (null); costs nothing where it is the same already. */
function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Shows or hides. */
function setShown(node, shown) {
  if (node.tagName === "g") setAttribute(node, "display", shown ? null : "none");
  else if (node.hidden === shown) node.hidden = !shown;
}

/** Calls `work` at most once in `wait_ms`, the last time included. */
function throttle(work, wait_ms) {
  let timer = 0;
  let last = -Infinity;
  const run = () => {
    timer = 0;
    last = performance.now();
    work();
  };
  const call = () => {
    if (!timer) timer = setTimeout(run, Math.max(0, wait_ms - (performance.now() - last)));
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

const ruler = document.createElement("canvas").getContext("2d");
const measured = new Map();

/** How wide a text comes out, in pixels. */
function textWidth(text, font) {
  const key = `${font}|${text}`;
  let width = measured.get(key);
  if (width === undefined) {
    if (measured.size > 800) measured.clear();
    ruler.font = font;
    width = ruler.measureText(text).width;
    measured.set(key, width);
  }
  return width;
}

/** Sets a text cut to a width with an ellipsis (the whole of it in a tooltip), then a tail that is never cut. */
function setFitted(node, text, room, font, tail = "") {
  let shown = text;
  if (textWidth(text, font) > room) {
    let low = 0;
    let high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (textWidth(`${text.slice(0, middle).trimEnd()}…`, font) <= room) low = middle;
      else high = middle - 1;
    }
    shown = `${text.slice(0, low).trimEnd()}…`;
  }
  if (written.get(node) === `${shown}|${text}|${tail}`) return;
  written.set(node, `${shown}|${text}|${tail}`);
  node.textContent = shown + tail;
  if (shown !== text) node.append(svg("title", {}, text));
}
