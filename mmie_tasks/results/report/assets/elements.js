// Creates elements. Texts become text nodes, never markup.

const byId = (id) => document.getElementById(id);

const inert = (id) => JSON.parse(byId(id).textContent);

/** An element: `attributes` as in HTML; functions become listeners of the event of that name. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

const counted = (number) => number.toLocaleString("en-US");

const withNoun = (number, noun) => `${counted(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Points on the benchmark's own scale: whole numbers, or with two or three decimals. */
function formatPoints(points, task) {
  if (task.whole && Number.isInteger(points)) return String(points);
  return points.toFixed(task.full_marks <= 1 ? 3 : 2);
}

/** A run's name with its colour. */
function runName(runs, index) {
  return element("span", { class: `run run-${index % 6}` }, element("bdi", {}, runs[index].name));
}

/** Untrusted text of a log; a long one is shortened, with a button that shows all of it. */
function logText(text, limit = 1500) {
  if (text.length <= limit * 1.2) return element("div", { class: "log-text", dir: "auto" }, text);
  const head = element("div", { class: "log-text part", dir: "auto" }, text.slice(0, limit), "…");
  const whole = element("div", { class: "log-text whole", dir: "auto", hidden: true }, text);
  const title = `Show all ${counted(text.length)} characters`;
  const button = element("button", { type: "button", class: "more", "aria-expanded": "false" }, title);
  button.addEventListener("click", () => {
    whole.hidden = !whole.hidden;
    head.hidden = !whole.hidden;
    button.textContent = whole.hidden ? title : "Show less";
    button.setAttribute("aria-expanded", String(!whole.hidden));
  });
  return element("div", {}, head, whole, button);
}

/** A control with its label. */
function labelled(label, control, kind = "") {
  return element("label", { class: `field ${kind}` }, element("span", {}, label), control);
}

function choice(options, selected, onChange) {
  const items = options.map(([value, label]) =>
    element("option", { value, selected: value === selected }, label),
  );
  return element("select", { change: (event) => onChange(event.target.value) }, ...items);
}
