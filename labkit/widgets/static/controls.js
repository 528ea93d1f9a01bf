// The controls of the traffic: real radio buttons and sliders, made once, set from Python or by hand.

const STEPS = 240;

/** Draws into `box`; `send(id, value)` tells Python. Returns {update(controls), enable(on)}. */
function makeControls(box, send) {
  const made = new Map();
  let shape = "";

  function update(controls) {
    const next = JSON.stringify(controls.map(({ value, text, ...fixed }) => fixed));
    if (next !== shape) {
      shape = next;
      const focused = box.contains(document.activeElement) ? document.activeElement.dataset.key : null;
      made.clear();
      box.replaceChildren(
        ...controls.map((control) => {
          const one = (control.kind === "range" ? makeRange : makeSegmented)(control, send);
          made.set(control.id, one);
          return one.node;
        }),
      );
      if (focused) [...box.querySelectorAll("input")].find((input) => input.dataset.key === focused)?.focus();
    }
    for (const control of controls) made.get(control.id).set(control);
  }

  return {
    update,
    enable(on) {
      for (const field of box.children) field.disabled = !on;
    },
    destroy() {
      for (const one of made.values()) one.destroy?.();
    },
  };
}

function makeSegmented({ id, label, options, help }, send) {
  // Radio buttons of one name are one group all over the page, and each panel is a module of its own.
  const name = `xdp-${id}-${Math.random().toString(36).slice(2)}`;
  const inputs = options.map((option) => {
    const { value, text } = typeof option === "object" ? option : { value: option, text: String(option) };
    const input = html("input", { ...OWN_KEYS, type: "radio", name, "data-key": `${id}=${value}` });
    input.addEventListener("change", () => send(id, value));
    return { value, input, node: html("label", {}, input, html("span", {}, text ?? String(value))) };
  });
  const node = html(
    "fieldset",
    { class: "xdp-control", title: help },
    html("legend", {}, label),
    html("div", { class: "xdp-segments" }, ...inputs.map((i) => i.node)),
  );
  return {
    node,
    set({ value }) {
      for (const one of inputs)
        if (one.input.checked !== (one.value === value)) one.input.checked = one.value === value;
    },
  };
}

function makeRange(control, send) {
  const { id, label, help } = control;
  const scale = makeScale(control);
  const input = html("input", {
    ...OWN_KEYS,
    type: "range",
    min: 0,
    max: scale.steps,
    step: 1,
    "data-key": id,
    "aria-label": label,
  });
  const output = html("output");
  const node = html(
    "fieldset",
    { class: "xdp-control", title: help },
    html("span", { class: "xdp-label", "aria-hidden": "true" }, label),
    input,
    output,
  );
  let touched = -Infinity;
  const show = (value, text) => {
    const words = text ?? control.words?.[input.value] ?? formatControl(control, value);
    setText(output, words);
    setAttribute(input, "aria-valuetext", words);
    setAttribute(input, "style", `--at:${((100 * input.value) / scale.steps).toFixed(1)}%`);
  };
  const tell = throttle(() => send(id, scale.value(Number(input.value))), 150);
  input.addEventListener("input", () => {
    touched = performance.now();
    show(scale.value(Number(input.value)));
    tell();
  });
  return {
    node,
    // What Python says is put off for a moment after a touch, so that the slider doesn't run from under the hand.
    set({ value, text }) {
      if (performance.now() - touched < 600) return;
      input.value = scale.position(value);
      show(value, text);
    },
    destroy: tell.cancel,
  };
}

/** Slider positions 0…steps to values; with an `end`, the last position means "no limit" (null); or `values` one by one. */
function makeScale({ min, max, step = 1, scale, end, values }) {
  if (values) {
    const closer = (wanted) => (best, each, i) => (Math.abs(each - wanted) < Math.abs(values[best] - wanted) ? i : best);
    return { steps: values.length - 1, value: (position) => values[position], position: (value) => values.reduce(closer(value), 0) };
  }
  const log = scale === "log";
  const steps = log ? STEPS : Math.round((max - min) / step);
  const last = end === undefined ? steps : steps + Math.ceil(steps / 24);
  return {
    steps: last,
    value(position) {
      if (position > steps) return null;
      if (!log) return min + position * step;
      const exact = min * (max / min) ** (position / steps);
      return Number(exact.toPrecision(2));
    },
    position(value) {
      if (value === null || value === undefined) return last;
      const part = log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min);
      return Math.round(Math.min(1, Math.max(0, part)) * steps);
    },
  };
}
