// The report: filters and searches the samples, opens them, and draws charts when they come into view.

const GROUP_SIZE = 100;
const FEW = 25; // samples that one button opens; as many are printed without being open
const MAX_CHUNKS = 20; // unpacked, in memory
const EPSILON = 1e-9; // points closer than this are equal
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'" };

const byId = (id) => document.getElementById(id);
const counted = (number) => number.toLocaleString("en-US");
const folded = (text) => text.toLowerCase();
const differ = (a, b) => (a === null || b === null ? a !== b : Math.abs(a - b) > EPSILON);

/** A response with the unpacked content of an element, without any network request. */
function unpacked(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

function element(tag, className, text) {
  return Object.assign(document.createElement(tag), { className, textContent: text });
}

/** The texts of a sample: all untrusted ones are escaped, in elements with `dir` or descriptions of images. */
function textsOf(html) {
  const texts = html.matchAll(/ (?:dir="auto">|alt=")([^<"]*)/g);
  return [...texts].map(([, text]) => text.replace(/&(amp|lt|gt|#34|#39);/g, (entity) => ENTITIES[entity]));
}

/** The samples of a task: a list in groups, whose rows and details are made when they are opened. */
class Browser {
  #rows = []; // of every sample, once it has been shown
  #chunks = new Map(); // number to details, the recently used ones
  #orders = new Map();
  #search = null; // {query, hits, searched, done}
  #matches = [];

  constructor(section, number, data) {
    Object.assign(this, { section, number, data, size: data.ids.length });
    const find = (name) => section.querySelector(`.browser ${name}`);
    [this.form, this.count, this.stop, this.list] = ["form", ".count", ".stop", ".list"].map(find);
    this.groups = Object.values(data.groups);
    let timer = 0;
    this.form.addEventListener("input", ({ target }) => {
      clearTimeout(timer);
      timer = setTimeout(() => (target.type === "search" ? this.search(target.value.trim()) : this.show()), target.type === "search" ? 200 : 0);
    });
    this.form.addEventListener("reset", () => setTimeout(() => this.search("")));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.stop.addEventListener("click", () => {
      this.#search.done = true;
      this.#showCount();
    });
    find(".first-ones").addEventListener("click", () => {
      for (const sample of this.#matches.slice(0, FEW)) this.#rows[sample].firstElementChild.open = true;
    });
    find("").hidden = false;
    this.show(true);
  }

  /** Show the samples that match the filters. */
  show(isFirst = false) {
    const form = Object.fromEntries(new FormData(this.form));
    const matches = this.#order(form.order, form.run).filter((sample) => this.#isMatch(sample, form));
    if (isFirst || matches.length !== this.#matches.length || matches.some((sample, index) => sample !== this.#matches[index])) {
      this.#matches = matches;
      this.list.replaceChildren(...Array.from({ length: Math.ceil(matches.length / GROUP_SIZE) }, (_, group) => this.#group(group)));
      if (matches.length > 0) this.#openGroup(0);
    }
    this.#showCount();
  }

  #isMatch(sample, form) {
    const { data } = this;
    if (this.#search && !this.#search.hits[sample]) return false;
    if (form.scores_differ && !data.scores_differ[sample]) return false;
    if (form.runs_differ && !data.runs_differ[sample]) return false;
    if (!this.groups.every(({ of }, kind) => !form[`group-${kind}`] || of[sample].includes(Number(form[`group-${kind}`])))) return false;
    const runs = this.#runsWith(sample, form.run);
    const reasons = runs.flatMap((run) => [data.reasons.official[run][sample], data.reasons.robust[run][sample]]);
    if (form.unscored === "any" && !reasons.some((reason) => reason)) return false;
    if (form.unscored?.startsWith("=") && !reasons.includes(form.unscored.slice(1))) return false;
    if (!form.lowest && !form.highest) return runs.length > 0;
    const [lowest, highest] = [Number(form.lowest || -Infinity) - EPSILON, Number(form.highest || Infinity) + EPSILON];
    return this.#points(sample, runs).some((points) => points >= lowest && points <= highest);
  }

  #runsWith(sample, run = "any") {
    const runs = run === "any" ? this.data.present : [Number(run)];
    return runs.filter((index) => !this.data.missing[index][sample]);
  }

  #points(sample, runs) {
    return runs.map((run) => this.data.points.official[run][sample]).filter((points) => points !== null);
  }

  /** All samples, sorted; equals stay as logged. Those without points are neither best nor worst: they come last. */
  #order(order, run) {
    const name = `${order} ${run}`;
    if (!this.#orders.has(name)) {
      const mean = (sample) => {
        const points = this.#points(sample, this.#runsWith(sample, run));
        const sum = points.reduce((total, value) => total + value, 0);
        return points.length === 0 ? Number.MAX_VALUE : ((order === "best" ? -1 : 1) * sum) / points.length;
      };
      const keyOf = { logged: () => 0, disputed: (sample) => -this.data.disputed[sample] }[order] ?? mean;
      const keys = this.data.ids.map((_, sample) => keyOf(sample));
      this.#orders.set(name, [...keys.keys()].sort((a, b) => keys[a] - keys[b]));
    }
    return this.#orders.get(name);
  }

  #group(group) {
    const first = group * GROUP_SIZE;
    const last = Math.min(first + GROUP_SIZE, this.#matches.length);
    const node = element("details", "rows", "");
    const list = Object.assign(element("ol", "samples", ""), { start: first + 1 });
    node.append(element("summary", "", `Samples ${counted(first + 1)} to ${counted(last)}`), list);
    node.addEventListener("toggle", () => node.open && this.#openGroup(group));
    return node;
  }

  #openGroup(group) {
    const node = this.list.children[group];
    const samples = this.#matches.slice(group * GROUP_SIZE, (group + 1) * GROUP_SIZE);
    node.lastElementChild.replaceChildren(...samples.map((sample) => (this.#rows[sample] ??= this.#row(sample))));
    node.open = true;
  }

  #row(sample) {
    const row = byId("x-row").content.firstElementChild.cloneNode(true);
    row.querySelector(".id").textContent = this.data.ids[sample];
    row.querySelector(".first").textContent = this.data.first[sample];
    row.querySelector(".marks").append(...this.data.present.map((run) => this.#mark(run, sample)));
    row.firstElementChild.addEventListener("toggle", ({ target }) => target.open && this.#fill(target, sample));
    return row;
  }

  /** The points of a sample in a run: official, and robust where they differ. */
  #mark(run, sample) {
    const { points, reasons, missing, names, full_marks: full } = this.data;
    const mark = element("span", `mark run-${run % 6}`, "–");
    if (missing[run][sample]) return mark;
    const [official, robust] = [points.official[run][sample], points.robust[run][sample]];
    const shown = (value) => (value === null ? "n/a" : String(Math.round(1000 * value) / 1000));
    mark.textContent = differ(official, robust) ? `${shown(official)} | ${shown(robust)}` : shown(official);
    const reason = reasons.official[run][sample] || reasons.robust[run][sample];
    mark.title = `${names[run]}: official ${shown(official)}, robust ${shown(robust)}${reason ? `, ${reason}` : ""}`;
    mark.prepend(element("span", "unseen", `${names[run]}: `));
    mark.style.setProperty("--share", (official ?? 0) / full);
    return mark;
  }

  /** Put the details into a sample's row, once; they are HTML whose untrusted texts are escaped. */
  async #fill(row, sample) {
    if (row.childElementCount > 1) return;
    const body = element("div", "whole-sample", "");
    row.append(body);
    const chunk = this.data.chunk_starts.findLastIndex((start) => start <= sample);
    body.innerHTML = (await this.#chunk(chunk))[sample - this.data.chunk_starts[chunk]];
    for (const image of body.querySelectorAll("[data-picture]")) image.src = byId(image.dataset.picture).textContent;
  }

  #chunk(chunk) {
    const details = this.#chunks.get(chunk) ?? unpacked(`x-chunk-${this.number}-${chunk}`).json();
    this.#chunks.delete(chunk);
    this.#chunks.set(chunk, details);
    if (this.#chunks.size > MAX_CHUNKS) this.#chunks.delete(this.#chunks.keys().next().value);
    return details;
  }

  #showCount() {
    const search = this.#search;
    this.stop.hidden = !search || search.done;
    const progress = this.stop.hidden ? "" : `, ${counted(search.searched)} searched so far`;
    const matches = `${counted(this.#matches.length)} of ${counted(this.size)} sample${this.size === 1 ? "" : "s"}`;
    this.count.textContent = `${matches} match${this.#matches.length === 1 ? "es" : ""}${progress}`;
  }

  /** Search ids and details, chunk by chunk, so that the page stays responsive; an empty query ends the search. */
  async search(text) {
    if (this.#search) this.#search.done = true;
    const { ids, first, chunk_starts: starts } = this.data;
    const [query, hits] = [folded(text), new Uint8Array(this.size)];
    const search = { hits, searched: 0, done: query === "" };
    this.#search = search.done ? null : search;
    ids.forEach((id, sample) => (hits[sample] = folded(`${id}\n${first[sample]}`).includes(query)));
    this.show();
    for (let chunk = 0, shown = performance.now(); chunk < starts.length && !search.done; chunk += 1) {
      const details = await this.#chunk(chunk);
      details.forEach((html, offset) => (hits[starts[chunk] + offset] ||= textsOf(html).some((part) => folded(part).includes(query))));
      search.searched = starts[chunk] + details.length;
      if (performance.now() - shown < 100) continue;
      if (!search.done) this.show();
      await new Promise((resume) => setTimeout(resume));
      shown = performance.now();
    }
    if (search !== this.#search || search.done) return;
    search.done = true;
    this.show();
  }

  /** Show and open the sample with this id. */
  async open(id) {
    const sample = this.data.ids.indexOf(id);
    if (sample < 0) {
      this.count.textContent = `No sample has the id ${id}.`;
      return;
    }
    if (!this.#matches.includes(sample)) {
      this.form.reset();
      this.search("");
    }
    this.#openGroup(Math.floor(this.#matches.indexOf(sample) / GROUP_SIZE));
    const row = this.#rows[sample].firstElementChild;
    await this.#fill(row, sample);
    row.open = true;
    row.scrollIntoView({ block: "start" });
    row.firstElementChild.focus({ preventScroll: true });
  }
}

// Charts.

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false };
const charts = new Map(); // element to figure
const drawn = new Set();
let library = null;

/** The library as a script of this page: its hash is allowed in the page's policy. */
async function plotly() {
  library ??= unpacked("x-library").text().then((text) => document.head.append(element("script", "", text)));
  await library;
  return window.Plotly;
}

/** A colour of the style sheet, in the current theme. */
function colour(name) {
  const probe = element("span", "", "");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

async function draw(plot) {
  const figure = JSON.stringify(charts.get(plot)).replace(/"(--[a-z0-5-]+)"/g, (_, name) => `"${colour(name)}"`);
  const { data, layout } = JSON.parse(figure);
  await (await plotly()).react(plot, data, layout, CONFIG);
  plot.dataset.drawn = "";
}

const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      drawn.add(target);
      draw(target);
    }
  },
  { rootMargin: "300px" },
);

// The shown task, which the fragment of the address names: `task`, `task:part` or `task/id`.

const sections = [...document.querySelectorAll("section.task")];
const browsers = new Map(); // section to browser, once shown

function showTask(section) {
  for (const candidate of sections) candidate.hidden = candidate !== section;
  byId("overview").hidden = sections.length > 1 && section !== undefined;
  for (const link of document.querySelectorAll("nav.bar a")) {
    if (link.hash === (section ? `#${section.id}` : "#overview")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (section) prepare(section);
}

/** Fill a task's list of samples, and draw its charts when they come into view. */
function prepare(section) {
  if (browsers.has(section)) return;
  const { charts: figures, ...data } = JSON.parse(byId(`x-task-${section.dataset.task}`).textContent);
  section.querySelectorAll(".plot").forEach((plot, index) => {
    charts.set(plot, figures[index]);
    observer.observe(plot);
  });
  browsers.set(section, new Browser(section, section.dataset.task, data));
}

function follow() {
  const [, name, part, id] = /^#([^/:]*)(:[^/]*)?(?:\/(.*))?$/s.exec(location.hash) ?? [];
  const named = sections.find((section) => section.id === name);
  showTask(named ?? (sections.length === 1 ? sections[0] : undefined));
  if (named && id) browsers.get(named).open(decoded(id));
  else if (named) (part ? byId(name + part) : named)?.scrollIntoView();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The system's theme, until the button is pressed.

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

function applyTheme() {
  byId("x-theme").textContent = isDark() ? "Light theme" : "Dark theme";
  drawn.forEach(draw);
}

byId("x-theme").hidden = false;
byId("x-theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  applyTheme();
});
dark.addEventListener("change", applyTheme);

// On paper, all tasks have their samples, and all tables and long texts are open.

let opened = [];
addEventListener("beforeprint", () => {
  sections.forEach(prepare);
  opened = [...document.querySelectorAll("details[data-print]:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});

/** Copy the link to a sample; where the browser forbids it, the link itself can be copied. */
addEventListener("click", async ({ target }) => {
  if (!target.matches(".copy")) return;
  const words = await navigator.clipboard.writeText(target.previousElementSibling.href).then(
    () => "Copied",
    () => "Not allowed here: copy the link itself",
  );
  target.textContent = words;
});

addEventListener("hashchange", follow);
applyTheme();
follow();
