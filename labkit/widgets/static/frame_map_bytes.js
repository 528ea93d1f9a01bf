// What a byte of the buffer is, and a cursor that goes from byte to byte by mouse, touch or keyboard.

const ORDER = ["headroom", "metadata", "new", "tailroom"];

/** All that there is to say about byte `at` of a strip: { value, place, fields }. */
function describeByte(drawing, strip, at) {
  const piece = strip.pieces.find(([, , first, last]) => at >= first && at < last);
  const name = piece ? piece[0] : "beyond";
  const hex = strip.memory.slice(2 * at, 2 * at + 2);
  const offset = at - drawing.start;
  const header = piece && !ORDER.includes(name);
  const fields = header ? drawing.fields.filter(([, , first, length]) => offset >= first && offset < first + length) : [];
  return { hex, name, place: placeInWords(strip, name, at), fields, piece };
}

function placeInWords(strip, name, at) {
  const count = (n) => `${formatCount(n)} byte${n === 1 ? "" : "s"}`;
  if (name === "headroom") return `${count(strip.data_meta - at)} before ${strip.data_meta === strip.data ? "data" : "data_meta"}`;
  if (name === "metadata") return `data_meta + ${at - strip.data_meta}, ${count(strip.data - at)} before data`;
  if (name === "tailroom") return at === strip.data_end ? "at data_end" : `data_end + ${at - strip.data_end}`;
  return `data + ${formatCount(at - strip.data)}`;
}

/** The digits in other ways: { decimal, binary, character }. */
function otherWays(hex) {
  const value = parseInt(hex, 16);
  const character = value >= 32 && value < 127 ? `“${String.fromCharCode(value)}”` : "";
  return { decimal: String(value), binary: value.toString(2).padStart(8, "0"), character };
}

/** One line for those who listen. */
function byteInWords({ hex, name, place, fields }) {
  const what = fields.map(([part, field, , , value, meaning]) => `${part} ${field}, ${value}${meaning ? `: ${meaning}` : ""}`);
  return [hex ? `byte ${hex}` : "byte not copied", what.length ? place : `${name}, ${place}`, ...what].join("; ");
}

/** The pixel of the border before byte `at`. */
function pixelOf(axis, at) {
  for (const [first, last, x, width] of axis) if (at <= last) return x + (width * (at - first)) / (last - first);
  const [, , x, width] = axis.at(-1);
  return x + width;
}

/** The byte at pixel `x`, or the folded stretch [first, last]; null beyond the buffer. */
function byteAt(axis, x) {
  for (const [first, last, left, width, folded] of axis) {
    if (x < left || x >= left + width) continue;
    return folded ? { folded: [first, last] } : { at: first + Math.floor(((x - left) / width) * (last - first)) };
  }
  return null;
}

/** The next byte from `at` by `step` that isn't folded away. */
function nextByte(axis, at, step) {
  const shown = axis.filter(([, , , , folded]) => !folded);
  let next = at + step;
  const inside = shown.find(([first, last]) => next >= first && next < last);
  if (inside) return next;
  const beyond = step > 0 ? shown.find(([first]) => first > at) : shown.findLast(([, last]) => last <= at);
  if (beyond) return step > 0 ? beyond[0] : beyond[1] - 1;
  return step > 0 ? shown.at(-1)[1] - 1 : shown[0][0];
}
