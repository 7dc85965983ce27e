"use strict";
// Shows one task at a time, draws charts when they come into view, and filters and searches samples.

const sections = [...document.querySelectorAll("section.task")];
const byId = (id) => document.getElementById(id);

/** The address names a task, or a sample: `#task`, `#task/id`. */
function follow() {
  let name = location.hash.slice(1);
  try {
    name = decodeURIComponent(name);
  } catch {} // a percent sign of somebody's own
  const shown = sections.find(({ id }) => id === name.split("/", 1)[0]) ?? (sections.length === 1 ? sections[0] : null);
  for (const section of sections) section.hidden = section !== shown;
  byId("overview").hidden = sections.length > 1 && shown !== null;
  for (const link of document.querySelectorAll("nav a")) {
    link.toggleAttribute("aria-current", decodeURIComponent(link.hash.slice(1)) === (shown?.id ?? "overview"));
  }
  if (!name.includes("/")) return;
  const sample = byId(name);
  if (!sample) {
    shown.querySelector("output").textContent = `This page does not have the sample ${name.slice(name.indexOf("/") + 1)}.`;
    return;
  }
  sample.hidden = false;
  sample.open = true;
  sample.scrollIntoView();
}
addEventListener("hashchange", follow);

// Charts.

const observer = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    observer.unobserve(target);
    const { data, layout } = JSON.parse(target.dataset.figure);
    const config = { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false };
    Plotly.newPlot(target, data, layout, config).then(() => (target.dataset.drawn = ""));
  }
}, { rootMargin: "300px" });
for (const plot of document.querySelectorAll(".plot")) observer.observe(plot);

// Images are in the page once, and shown in samples that are open.

let addresses = null;
for (const sample of document.querySelectorAll(".sample")) {
  sample.addEventListener("toggle", () => {
    addresses ??= JSON.parse(byId("images").textContent);
    for (const image of sample.querySelectorAll("img:not([src])")) image.src = addresses[image.dataset.image];
  });
}

// Filters, order and search.

/** Sort keys; samples without points are neither best nor worst, and come last. */
const KEYS = {
  disputed: (_, index) => index,
  logged: ({ dataset }) => Number(dataset.position),
  worst: ({ dataset }) => (dataset.points === "" ? Infinity : Number(dataset.points)),
  best: ({ dataset }) => (dataset.points === "" ? Infinity : -dataset.points),
};

function prepare(form, list, output) {
  const samples = [...list.children]; // the most disputed first
  const texts = new Map();
  /** The texts of logs, which are in elements with `dir`. */
  const textOf = (sample) => {
    if (!texts.has(sample)) {
      const parts = [...sample.querySelectorAll("[dir]")].map((node) => node.textContent);
      texts.set(sample, parts.join("\n").toLowerCase());
    }
    return texts.get(sample);
  };
  let order = "disputed";
  const show = () => {
    const fields = new FormData(form);
    const filters = fields.getAll("filter").filter(Boolean);
    const query = fields.get("query").trim().toLowerCase();
    const [lowest, highest] = [fields.get("lowest"), fields.get("highest")];
    let count = 0;
    for (const sample of samples) {
      const { points } = sample.dataset;
      const inRange = (!lowest && !highest) || (points !== "" && points >= Number(lowest || -Infinity) && points <= Number(highest || Infinity));
      const found = filters.length === 0 ? [] : JSON.parse(sample.dataset.filters);
      sample.hidden = !inRange || !filters.every((name) => found.includes(name)) || (query !== "" && !textOf(sample).includes(query));
      count += !sample.hidden;
    }
    if (fields.get("order") !== order) {
      order = fields.get("order");
      const keys = new Map(samples.map((sample, index) => [sample, KEYS[order](sample, index)]));
      list.append(...[...samples].sort((a, b) => keys.get(a) - keys.get(b)));
    }
    output.textContent = `${count.toLocaleString("en-US")} of ${samples.length.toLocaleString("en-US")} samples match`;
  };
  let timer = 0;
  form.addEventListener("input", ({ target }) => {
    clearTimeout(timer);
    timer = setTimeout(show, target.type === "search" ? 200 : 0);
  });
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}

for (const section of sections) {
  prepare(section.querySelector("form"), section.querySelector(".samples"), section.querySelector("output"));
}
follow();
