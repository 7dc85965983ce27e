// The list of samples, one page at a time; a sample's details are loaded when it is opened.

const PAGE_SIZE = 25;

class Browser {
  #search = null;
  #rows = new Map(); // of the page that is shown

  constructor(container, number, task, runs) {
    this.task = task;
    this.runs = runs;
    this.index = new Index(task);
    this.details = new Details(number, task.samples.chunk_starts);
    this.controls = new Controls(this.index, runs, () => this.show(), (query) => this.search(query));
    this.count = element("p", { class: "count", role: "status" });
    this.stop = element("button", { type: "button", hidden: true, click: () => this.#stopSearch() }, "Stop the search");
    this.list = element("ol", { class: "samples" });
    this.pagers = [this.#pager("Pages of samples"), this.#pager("Pages of samples, below the list")];
    const open = element("button", { type: "button", click: () => this.openAll() }, "Open all on this page");
    const key = element("p", { class: "legend" }, ...task.present.map((run) => runName(runs, run)), "official points | robust points where they differ");
    const status = element("div", { class: "status-bar" }, this.count, this.stop, key, open);
    container.append(this.controls.element, status, this.pagers[0].element, this.list, this.pagers[1].element);
    this.show();
  }

  /** Show the first page of the samples that match the filters. */
  show(page = 0) {
    const hits = this.#search?.hits ?? null;
    this.matches = this.index.select(this.controls.filters, this.controls.sort, hits);
    this.turn(page);
  }

  turn(page) {
    this.pages = Math.max(1, Math.ceil(this.matches.length / PAGE_SIZE));
    this.page = Math.min(Math.max(page, 0), this.pages - 1);
    const samples = this.matches.slice(this.page * PAGE_SIZE, (this.page + 1) * PAGE_SIZE);
    const rows = new Map(samples.map((sample) => [sample, this.#rows.get(sample) ?? this.#row(sample)]));
    const items = [...rows.values()];
    if (items.length !== this.list.children.length || items.some((row, index) => row !== this.list.children[index])) {
      this.list.replaceChildren(...items);
    }
    this.list.start = this.page * PAGE_SIZE + 1;
    this.#rows = rows;
    for (const pager of this.pagers) pager.update();
    this.#updateCount();
  }

  #updateCount() {
    const all = withNoun(this.index.size, "sample");
    const search = this.#search;
    this.stop.hidden = !search || search.done;
    const progress = search && !search.done ? `, ${counted(search.searched)} searched so far` : "";
    const text = `${counted(this.matches.length)} of ${all} match${this.matches.length === 1 ? "es" : ""}${progress}`;
    if (this.count.textContent !== text) this.count.textContent = text;
  }

  /** Search all details for a query; an empty query ends the search. */
  search(query) {
    this.#search?.stop();
    this.#search = query === "" ? null : new Search(query, this.index, this.details, (search) => this.#onProgress(search));
    if (this.#search) this.#search.run();
    else this.show();
  }

  #onProgress(search) {
    if (search === this.#search) this.show(search.searched === 0 ? 0 : this.page);
  }

  #stopSearch() {
    this.#search.stop();
    this.#search.done = true;
    this.#updateCount();
  }

  #pager(label) {
    const number = element("input", { type: "number", min: 1, "aria-label": "page" });
    number.addEventListener("change", () => this.turn((number.valueAsNumber || 1) - 1));
    const total = element("span", {});
    const back = element("button", { type: "button", click: () => this.turn(this.page - 1) }, "Previous");
    const on = element("button", { type: "button", click: () => this.turn(this.page + 1) }, "Next");
    const nav = element("nav", { class: "pager", "aria-label": label }, back, element("span", {}, "Page ", number, total), on);
    const update = () => {
      nav.hidden = this.pages === 1;
      number.value = this.page + 1;
      number.max = this.pages;
      total.textContent = ` of ${counted(this.pages)}`;
      back.disabled = this.page === 0;
      on.disabled = this.page === this.pages - 1;
    };
    return { element: nav, update };
  }

  #row(sample) {
    const { ids, first } = this.index;
    const columns = [
      element("span", { class: "id log-text", dir: "auto" }, ids[sample]),
      element("span", { class: "first log-text", dir: "auto" }, first[sample]),
      element("span", { class: "marks" }, ...this.task.present.map((run) => this.#mark(run, sample))),
    ];
    const body = element("div", { class: "whole-sample" });
    const details = element("details", { class: "sample" }, element("summary", {}, ...columns), body);
    details.addEventListener("toggle", () => {
      if (details.open && body.childElementCount === 0) this.#fill(body, sample);
    });
    return element("li", { value: null }, details);
  }

  /** The points of a sample in a run: official, and robust where they differ. */
  #mark(run, sample) {
    if (this.index.isMissing(run, sample)) return element("span", { class: `mark run-${run % 6} faint` }, "–");
    const [official, robust] = SCORE_KINDS.map((kind) => this.index.points[kind][run][sample]);
    const reason = this.index.reasons.official[run][sample] || this.index.reasons.robust[run][sample];
    const format = (points) => (points === null ? "n/a" : formatPoints(points, this.task));
    const text = differ(official, robust) ? `${format(official)} | ${format(robust)}` : format(official);
    const title = `${this.runs[run].name}: official ${format(official)}, robust ${format(robust)}${reason ? `, ${reason}` : ""}`;
    const hiddenName = element("span", { class: "unseen" }, `${this.runs[run].name}: `);
    const mark = element("span", { class: `mark run-${run % 6}`, title }, hiddenName, text);
    mark.style.setProperty("--share", official === null ? 0 : official / this.task.full_marks);
    return mark;
  }

  async #fill(body, sample) {
    const detail = await this.details.of(sample);
    body.replaceChildren(this.#about(sample), ...sampleBlocks(detail, this));
  }

  #about(sample) {
    const groups = Object.entries(this.index.groups).flatMap(([kind, { names, of }]) =>
      of[sample].map((group) => element("span", { class: "group log-text" }, `${kind}: ${names[group]}`)),
    );
    const href = `#${this.task.task}/${encodeURIComponent(this.index.ids[sample])}`;
    const link = element("a", { href }, "Link to this sample");
    const copy = element("button", { type: "button", click: (event) => copyLink(link, event.target) }, "Copy link");
    return element("p", { class: "about" }, ...groups, link, copy);
  }

  async openAll() {
    for (const [sample, row] of this.#rows) {
      const details = row.firstElementChild;
      if (details.lastElementChild.childElementCount === 0) await this.#fill(details.lastElementChild, sample);
      details.open = true;
    }
  }

  /** Show and open the sample with this id; false if no sample has it. */
  async open(id) {
    const sample = this.index.indexOf.get(id);
    if (sample === undefined) return false;
    if (!this.#rows.has(sample)) {
      this.controls.reset();
      this.controls.fill();
      this.search("");
      this.turn(Math.floor(this.matches.indexOf(sample) / PAGE_SIZE));
    }
    const details = this.#rows.get(sample).firstElementChild;
    await this.#fill(details.lastElementChild, sample);
    details.open = true;
    details.scrollIntoView({ block: "start" });
    details.firstElementChild.focus({ preventScroll: true });
    return true;
  }
}

/** Copy a link; if the browser forbids it, the user can still copy the link itself. */
async function copyLink(link, button) {
  try {
    await navigator.clipboard.writeText(link.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here: copy the link itself";
  }
}
