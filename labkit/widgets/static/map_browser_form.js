// A form for one entry: an input a field, with what it holds now and what would fit.

/** {node, update(form)}; `send(type, more)` tells Python, `left(row)` gets the focus back once the form is gone. */
function makeForm(send, left) {
  const node = html("form", { class: "mb-form", hidden: true });
  let made = null;

  node.addEventListener("submit", (event) => {
    event.preventDefault();
    if (made) send("write", made.typed());
  });
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    send("shut");
  });

  function update(form) {
    if (!form) {
      if (!made) return;
      const inside = node.contains(document.activeElement);
      const row = made.row;
      made = null;
      setShown(node, false);
      node.replaceChildren();
      if (inside) left(row);
      return;
    }
    if (made?.serial !== form.serial) {
      made = fill(node, form, send);
      setShown(node, true);
      (node.querySelector("input") ?? node.querySelector("button")).focus({ preventScroll: true });
      node.scrollIntoView({ block: "nearest" });
    }
    made.update(form);
  }

  return { node, update };
}

function fill(node, form, send) {
  const keys = form.keys.map((asked, i) => makeAsked(asked, `key-${i}`, form.serial));
  const fields = form.fields.map((asked, i) => makeAsked(asked, `value-${i}`, form.serial));
  const cpus = html("select", { ...OWN_KEYS, class: "mb-select", "aria-label": "For which CPUs" });
  setOptions(cpus, form.cpus);
  const refused = html("p", { class: "mb-refused", role: "alert" });
  const button = (text, type, primary) =>
    html("button", { ...OWN_KEYS, type, class: `xdp-button${primary ? " xdp-primary" : ""}` }, text);
  const shut = button("Cancel", "button");
  const away = button("Delete the entry", "button");
  shut.addEventListener("click", () => send("shut"));
  away.addEventListener("click", () => send("delete"));
  const at = () => Math.max(0, form.cpus.findIndex(([value]) => value === cpus.value));
  cpus.addEventListener("change", () => fields.forEach((field, i) => field.begin(form.fields[i].texts[at()])));
  const write = form.fields.length || form.keys.length ? [button(form.new ? "Add it" : "Write", "submit", true)] : [];
  node.replaceChildren(
    html("b", { class: "mb-form-title" }, form.title),
    ...(form.cpus.length && fields.length ? [html("label", { class: "mb-for" }, "A value is for ", cpus)] : []),
    html("div", { class: "mb-fields" }, ...keys.map((each) => each.node), ...fields.map((each) => each.node)),
    refused,
    ...(form.note ? [html("p", { class: "mb-form-note xdp-muted" }, form.note)] : []),
    html("div", { class: "mb-do" }, ...write, ...(form.can_delete ? [away] : []), shut),
  );
  return {
    serial: form.serial,
    row: form.row,
    update(now) {
      form = now;
      now.fields.forEach((asked, i) => fields[i].now(form.new ? "" : asked.now[at()]));
      setText(refused, now.refused ? `✗ ${now.refused}` : "");
      setShown(refused, Boolean(now.refused));
    },
    /** What was typed: of an entry that is there only what differs from what stood there. */
    typed() {
      const all = (list) => Object.fromEntries(list.map((each, i) => [i, each]).filter(([, each]) => form.new || each.changed()).map(([i, each]) => [i, each.text()]));
      return { keys: form.new ? all(keys) : {}, fields: all(fields), cpus: cpus.value };
    },
  };
}

function makeAsked({ name, wants, text }, id, serial) {
  const [field, hint] = [`mb-${serial}-${id}`, `mb-${serial}-${id}-wants`];
  const input = html("input", { ...OWN_KEYS, id: field, class: "mb-input", type: "text", autocomplete: "off", spellcheck: "false", "aria-describedby": hint });
  const now = html("span", { class: "mb-now" });
  let first = text;
  input.value = text;
  return {
    node: html(
      "div",
      { class: "mb-asked" },
      html("label", { for: field }, name),
      input,
      now,
      html("span", { class: "mb-wants xdp-muted", id: hint }, wants),
    ),
    now: (words) => setText(now, words ? `now ${words}` : ""),
    text: () => input.value,
    changed: () => input.value !== first,
    begin(other) {
      if (input.value !== first) return;
      first = other;
      input.value = other;
    },
  };
}
