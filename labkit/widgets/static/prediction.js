// A question before a measurement: choices as real radio buttons, or a field for a number. Python stores the answer.

// In JupyterLab's command mode arrows and letters belong to the notebook; on an element with this mark they don't.
const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function render({ model, el }) {
  const name = `lab-predict-${Math.random().toString(36).slice(2)}`;
  const tell = (value) => {
    model.set("value", value);
    model.save_changes();
  };
  const choices = model.get("choices");
  const question = `${name}-question`;
  const fields = choices.length ? choices.map(choice) : [number()];
  const status = make("p", { class: "lab-predict-status", role: "status" });
  el.classList.add("lab-predict");
  el.replaceChildren(
    make(
      "fieldset",
      {},
      make("legend", { id: question }, make("b", {}, "Predict. "), model.get("question")),
      ...fields.map((field) => field.node),
    ),
    status,
  );

  function choice(text) {
    const input = make("input", { ...OWN_KEYS, type: "radio", name });
    input.addEventListener("change", () => tell(text));
    return {
      node: make("label", {}, input, make("span", {}, text)),
      show: (value) => (input.checked = value === text),
    };
  }

  function number() {
    const input = make("input", {
      ...OWN_KEYS,
      type: "text",
      inputmode: "decimal",
      autocomplete: "off",
      placeholder: "a number, then Enter",
      "aria-labelledby": `${question} ${name}-unit`,
    });
    input.addEventListener("change", () => tell(input.value));
    // Enter stores; JupyterLab would run or leave the cell.
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) {
        event.stopPropagation();
        tell(input.value);
      }
    });
    return {
      node: make("div", {}, input, make("span", { id: `${name}-unit` }, model.get("unit"))),
      show: (value) => {
        if (document.activeElement !== input) input.value = value;
      },
    };
  }

  function draw() {
    for (const field of fields) field.show(model.get("value"));
    status.textContent = model.get("status");
    status.classList.toggle("lab-predict-alert", model.get("alert"));
  }

  const names = "change:value change:status change:alert";
  model.on(names, draw);
  draw();
  return () => model.off(names, draw);
}

export default { render };
