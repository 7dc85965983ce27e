// The list of samples: a page of it at a time, each opened when it is wanted.

const PAGE = 25;

class Browser {
  #search = null;
  #rows = new Map(); // of the page that is shown

  constructor(element, number, task, runs) {
    this.task = task;
    this.runs = runs;
    this.index = new Index(task);
    this.details = new Details(number, task.samples.chunk_starts);
    this.controls = new Controls(this.index, runs, () => this.show(), (words) => this.look(words));
    this.count = make("p", { class: "count", role: "status" });
    this.stop = make("button", { type: "button", hidden: true, click: () => this.#stopped() }, "Stop the search");
    this.list = make("ol", { class: "samples" });
    this.pagers = [this.#pager("Pages of samples"), this.#pager("Pages of samples, below the list")];
    const open = make("button", { type: "button", click: () => this.openAll() }, "Open all on this page");
    const key = make("p", { class: "legend" }, ...task.present.map((run) => runName(runs, run)), "official points | robust where they differ");
    const told = make("div", { class: "told" }, this.count, this.stop, key, open);
    element.append(this.controls.element, told, this.pagers[0].element, this.list, this.pagers[1].element);
    this.show();
  }

  /** Show the first page of what the controls ask for. */
  show(page = 0) {
    const hits = this.#search?.hits ?? null;
    this.found = this.index.select(this.controls.wanted, this.controls.sort, hits);
    this.turn(page);
  }

  turn(page) {
    this.pages = Math.max(1, Math.ceil(this.found.length / PAGE));
    this.page = Math.min(Math.max(page, 0), this.pages - 1);
    const samples = this.found.slice(this.page * PAGE, (this.page + 1) * PAGE);
    const rows = new Map(samples.map((sample) => [sample, this.#rows.get(sample) ?? this.#row(sample)]));
    const kept = [...rows.values()];
    if (kept.length !== this.list.children.length || kept.some((row, place) => row !== this.list.children[place])) {
      this.list.replaceChildren(...kept);
    }
    this.list.start = this.page * PAGE + 1;
    this.#rows = rows;
    for (const pager of this.pagers) pager.update();
    this.#tell();
  }

  #tell() {
    const all = plural(this.index.size, "sample");
    const search = this.#search;
    this.stop.hidden = !search || search.done;
    const far = search && !search.done ? `, ${counted(search.looked)} searched so far` : "";
    const words = `${counted(this.found.length)} of ${all} match${this.found.length === 1 ? "es" : ""}${far}`;
    if (this.count.textContent !== words) this.count.textContent = words;
  }

  /** Search all details for words; without words, search no more. */
  look(words) {
    this.#search?.stop();
    this.#search = words === "" ? null : new Search(words, this.index, this.details, (search) => this.#heard(search));
    if (this.#search) this.#search.run();
    else this.show();
  }

  #heard(search) {
    if (search === this.#search) this.show(search.looked === 0 ? 0 : this.page);
  }

  #stopped() {
    this.#search.stop();
    this.#search.done = true;
    this.#tell();
  }

  #pager(label) {
    const number = make("input", { type: "number", min: 1, "aria-label": "page" });
    number.addEventListener("change", () => this.turn((number.valueAsNumber || 1) - 1));
    const total = make("span", {});
    const back = make("button", { type: "button", click: () => this.turn(this.page - 1) }, "Previous");
    const on = make("button", { type: "button", click: () => this.turn(this.page + 1) }, "Next");
    const element = make("nav", { class: "pager", "aria-label": label }, back, make("span", {}, "Page ", number, total), on);
    const update = () => {
      element.hidden = this.pages === 1;
      number.value = this.page + 1;
      number.max = this.pages;
      total.textContent = ` of ${counted(this.pages)}`;
      back.disabled = this.page === 0;
      on.disabled = this.page === this.pages - 1;
    };
    return { element, update };
  }

  #row(sample) {
    const { ids, first } = this.index;
    const words = [
      make("span", { class: "id said", dir: "auto" }, ids[sample]),
      make("span", { class: "first said", dir: "auto" }, first[sample]),
      make("span", { class: "marks" }, ...this.task.present.map((run) => this.#mark(run, sample))),
    ];
    const body = make("div", { class: "whole-sample" });
    const details = make("details", { class: "sample" }, make("summary", {}, ...words), body);
    details.addEventListener("toggle", () => {
      if (details.open && body.childElementCount === 0) this.#fill(body, sample);
    });
    return make("li", { value: null }, details);
  }

  /** How a sample did in a run, in a few characters. */
  #mark(run, sample) {
    if (this.index.isMissing(run, sample)) return make("span", { class: `mark run-${run % 6} faint` }, "–");
    const [official, robust] = READINGS.map((reading) => this.index.points[reading][run][sample]);
    const reason = this.index.reasons.official[run][sample] || this.index.reasons.robust[run][sample];
    const shown = (points) => (points === null ? "n/a" : inPoints(points, this.task));
    const words = apart(official, robust) ? `${shown(official)} | ${shown(robust)}` : shown(official);
    const title = `${this.runs[run].name}: official ${shown(official)}, robust ${shown(robust)}${reason ? `, ${reason}` : ""}`;
    const whose = make("span", { class: "unseen" }, `${this.runs[run].name}: `);
    const mark = make("span", { class: `mark run-${run % 6}`, title }, whose, words);
    mark.style.setProperty("--share", official === null ? 0 : official / this.task.full_marks);
    return mark;
  }

  async #fill(body, sample) {
    const detail = await this.details.of(sample);
    body.replaceChildren(this.#about(sample), ...wholeSample(detail, this));
  }

  #about(sample) {
    const groups = Object.entries(this.index.groups).flatMap(([kind, { names, of }]) =>
      of[sample].map((group) => make("span", { class: "group said" }, `${kind}: ${names[group]}`)),
    );
    const href = `#${this.task.task}/${encodeURIComponent(this.index.ids[sample])}`;
    const link = make("a", { href }, "Link to this sample");
    const copy = make("button", { type: "button", click: (event) => copied(link, event.target) }, "Copy link");
    return make("p", { class: "about" }, ...groups, link, copy);
  }

  async openAll() {
    for (const [sample, row] of this.#rows) {
      const details = row.firstElementChild;
      if (details.lastElementChild.childElementCount === 0) await this.#fill(details.lastElementChild, sample);
      details.open = true;
    }
  }

  /** Show and open the sample with this id; false where there is none. */
  async open(id) {
    const sample = this.index.place.get(id);
    if (sample === undefined) return false;
    if (!this.#rows.has(sample)) {
      this.controls.reset();
      this.controls.fill();
      this.look("");
      this.turn(Math.floor(this.found.indexOf(sample) / PAGE));
    }
    const details = this.#rows.get(sample).firstElementChild;
    await this.#fill(details.lastElementChild, sample);
    details.open = true;
    details.scrollIntoView({ block: "start" });
    details.firstElementChild.focus({ preventScroll: true });
    return true;
  }
}

/** Copy a link; where the browser forbids that, the link itself can still be copied. */
async function copied(link, button) {
  try {
    await navigator.clipboard.writeText(link.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here: copy the link itself";
  }
}
