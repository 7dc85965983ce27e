// The bar of filters above the samples.

const SORTS = [
  ["disputed", "most disputed first"],
  ["worst", "worst first"],
  ["best", "best first"],
  ["logged", "as logged"],
];

class Controls {
  /** `changed()` is called when other samples are wanted, `searched(words)` when other words are. */
  constructor(index, runs, changed, searched) {
    this.index = index;
    this.runs = runs;
    this.changed = changed;
    this.searched = searched;
    this.reset();
    this.element = make("div", { class: "controls", role: "search", "aria-label": "Samples" });
    this.fill();
  }

  reset() {
    this.wanted = structuredClone(WANTED);
    const disputed = this.index.disputed.some((value) => value > 0);
    this.sort = disputed || this.index.task.present.length > 1 ? "disputed" : "worst";
    this.words = "";
  }

  fill() {
    const fields = [
      this.#words(),
      this.#several() ? this.#run() : null,
      ...Object.keys(this.index.groups).map((kind) => this.#group(kind)),
      this.#points(),
      this.#unscored(),
      this.#check("readings", "Only where readings differ", this.index.readingsDiffer),
      this.#several() ? this.#check("runs", "Only where runs differ", this.index.runsDiffer) : null,
      labelled("Order", choice(SORTS, this.sort, (value) => this.#set(() => (this.sort = value)))),
      make("button", { type: "button", click: () => this.#clear() }, "Clear filters"),
    ];
    this.element.replaceChildren(...fields.filter((field) => field !== null));
  }

  #several() {
    return this.index.task.present.length > 1;
  }

  #set(change) {
    change();
    this.changed();
  }

  #clear() {
    this.reset();
    this.fill();
    this.searched("");
    this.element.querySelector("input").focus();
  }

  #words() {
    let waiting = 0;
    const look = (event) => {
      clearTimeout(waiting);
      const words = event.target.value.trim();
      waiting = setTimeout(() => {
        if (words !== this.words) this.searched((this.words = words));
      }, 200);
    };
    const input = make("input", { type: "search", input: look, autocomplete: "off", spellcheck: "false" });
    return labelled("Search in everything said", input, "words");
  }

  #run() {
    const options = [["any", "any"], ...this.index.task.present.map((run) => [String(run), this.runs[run].name])];
    return labelled("Run", choice(options, "any", (value) => this.#set(() => (this.wanted.run = value))));
  }

  #group(kind) {
    const { names, of } = this.index.groups[kind];
    const counts = new Array(names.length).fill(0);
    for (const groups of of) for (const group of groups) counts[group] += 1;
    const sorted = names.map((name, group) => [String(group), `${name} (${counted(counts[group])})`]);
    sorted.sort((one, other) => one[1].localeCompare(other[1], "en", { numeric: true }));
    const changed = (value) =>
      this.#set(() => {
        if (value === "") delete this.wanted.groups[kind];
        else this.wanted.groups[kind] = Number(value);
      });
    return labelled(kind[0].toUpperCase() + kind.slice(1), choice([["", "all"], ...sorted], "", changed));
  }

  #points() {
    const { full_marks: full, whole } = this.index.task;
    const end = (name, words) => {
      const input = (event) => {
        const value = event.target.valueAsNumber;
        this.#set(() => (this.wanted[name] = Number.isNaN(value) ? null : value));
      };
      const step = whole ? 1 : "any";
      return make("input", { type: "number", min: 0, max: full, step, input, "aria-label": words });
    };
    return make(
      "div",
      { class: "field range", role: "group", "aria-label": "Official points" },
      make("span", {}, `Points, 0 to ${full}`),
      make("span", {}, end("lowest", "least official points"), " to ", end("highest", "most official points")),
    );
  }

  #unscored() {
    const reasons = this.index.reasonCounts();
    if (reasons.length === 0) return null;
    const options = reasons.map(([reason, count]) => [`=${reason}`, `${reason} (${counted(count)})`]);
    const all = [["", "all samples"], ["any", "only without score"], ...options];
    return labelled("Without score", choice(all, "", (value) => this.#set(() => (this.wanted.unscored = value))));
  }

  #check(name, words, marks) {
    const count = marks.reduce((sum, mark) => sum + mark, 0);
    const change = (event) => this.#set(() => (this.wanted[name] = event.target.checked));
    const box = make("input", { type: "checkbox", change, disabled: count === 0 });
    return make("label", { class: "check" }, box, `${words} (${counted(count)})`);
  }
}
