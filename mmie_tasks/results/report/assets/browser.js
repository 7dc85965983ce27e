// The samples that match, in groups; a group's rows and a sample's details are made when it is opened.

const GROUP_SIZE = 100;
const FEW = 25; // samples that one button opens; as many are printed without being open

class Browser {
  #search = null;
  #rows = []; // of every sample, once it has been shown
  matches = null;

  constructor(container, number, task, runs) {
    this.task = task;
    this.runs = runs;
    this.index = new Index(task);
    this.details = new Details(number, task.samples.chunk_starts);
    this.controls = new Controls(this.index, runs, () => this.show(), (query) => this.search(query));
    this.count = element("p", { class: "count", role: "status" });
    this.stop = element("button", { type: "button", hidden: true, click: () => this.#stopSearch() }, "Stop the search");
    this.list = element("div", {});
    const open = element("button", { type: "button", click: () => this.openFirst() }, `Open the first ${FEW}`);
    const key = element("p", { class: "legend" }, ...task.present.map((run) => runName(runs, run)), "official points | robust points where they differ");
    container.append(this.controls.element, element("div", { class: "status-bar" }, this.count, this.stop, key, open), this.list);
    this.show();
  }

  /** Show the samples that match the filters. */
  show() {
    const hits = this.#search?.hits ?? null;
    const matches = this.index.select(this.controls.filters, this.controls.sort, hits);
    if (matches.length !== this.matches?.length || matches.some((sample, index) => sample !== this.matches[index])) {
      this.matches = matches;
      const groups = Array.from({ length: Math.ceil(matches.length / GROUP_SIZE) }, (_, number) => this.#group(number));
      this.list.replaceChildren(...groups);
      if (groups.length > 0) this.#openGroup(0);
    }
    this.#updateCount();
  }

  #group(number) {
    const first = number * GROUP_SIZE + 1;
    const last = Math.min(first + GROUP_SIZE - 1, this.matches.length);
    const title = element("summary", {}, `Samples ${counted(first)} to ${counted(last)}`);
    const list = element("ol", { class: "samples", start: first });
    return element("details", { class: "rows", toggle: ({ target }) => target.open && this.#openGroup(number) }, title, list);
  }

  #openGroup(number) {
    const group = this.list.children[number];
    const samples = this.matches.slice(number * GROUP_SIZE, (number + 1) * GROUP_SIZE);
    group.lastElementChild.replaceChildren(...samples.map((sample) => (this.#rows[sample] ??= this.#row(sample))));
    group.open = true;
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
    if (search === this.#search) this.show();
  }

  #stopSearch() {
    this.#search.stop();
    this.#search.done = true;
    this.#updateCount();
  }

  #row(sample) {
    const { ids, first } = this.index;
    const columns = [
      element("span", { class: "id log-text", dir: "auto" }, ids[sample]),
      element("span", { class: "first log-text", dir: "auto" }, first[sample]),
      element("span", { class: "marks" }, ...this.task.present.map((run) => this.#mark(run, sample))),
    ];
    const details = element("details", { class: "sample" }, element("summary", {}, ...columns));
    details.addEventListener("toggle", () => {
      if (details.open) this.#fill(details, sample);
    });
    return element("li", {}, details);
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

  /** Put the details into a sample's row, once. */
  async #fill(details, sample) {
    if (details.childElementCount > 1) return;
    const body = element("div", { class: "whole-sample" });
    details.append(body);
    body.append(this.#about(sample), ...sampleBlocks(await this.details.of(sample), this));
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

  openFirst() {
    for (const sample of this.matches.slice(0, FEW)) this.#rows[sample].firstElementChild.open = true;
  }

  /** Show and open the sample with this id; false if no sample has it. */
  async open(id) {
    const sample = this.index.indexOf.get(id);
    if (sample === undefined) return false;
    if (!this.matches.includes(sample)) {
      this.controls.reset();
      this.controls.fill();
      this.search("");
    }
    this.#openGroup(Math.floor(this.matches.indexOf(sample) / GROUP_SIZE));
    const details = this.#rows[sample].firstElementChild;
    await this.#fill(details, sample);
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
