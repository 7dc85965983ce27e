// Making elements. Texts become text nodes, never markup.

const byId = (id) => document.getElementById(id);

const inert = (id) => JSON.parse(byId(id).textContent);

/** An element: `attributes` as in HTML, but for functions, which listen to the event of that name. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

const counted = (number) => number.toLocaleString("en-US");

const plural = (number, word) => `${counted(number)} ${word}${number === 1 ? "" : "s"}`;

/** Points on the benchmark's own scale: whole, or with the decimals they need. */
function inPoints(points, task) {
  if (task.whole && Number.isInteger(points)) return String(points);
  return points.toFixed(task.full_marks <= 1 ? 3 : 2);
}

/** A run's name, beside its colour. */
function runName(runs, index) {
  return make("span", { class: `run run-${index % 6}` }, make("bdi", {}, runs[index].name));
}

/** What a stranger said, whole when it is asked for. */
function said(text, shown = 1500) {
  if (text.length <= shown * 1.2) return make("div", { class: "said", dir: "auto" }, text);
  const head = make("div", { class: "said part", dir: "auto" }, text.slice(0, shown), "…");
  const whole = make("div", { class: "said whole", dir: "auto", hidden: true }, text);
  const words = `Show all ${counted(text.length)} characters`;
  const button = make("button", { type: "button", class: "more", "aria-expanded": "false" }, words);
  button.addEventListener("click", () => {
    whole.hidden = !whole.hidden;
    head.hidden = !whole.hidden;
    button.textContent = whole.hidden ? words : "Show less";
    button.setAttribute("aria-expanded", String(!whole.hidden));
  });
  return make("div", {}, head, whole, button);
}

/** A control with its label. */
function labelled(words, control, kind = "") {
  return make("label", { class: `field ${kind}` }, make("span", {}, words), control);
}

function choice(options, chosen, changed) {
  const made = options.map(([value, words]) =>
    make("option", { value, selected: value === chosen }, words),
  );
  return make("select", { change: (event) => changed(event.target.value) }, ...made);
}
