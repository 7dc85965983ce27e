// The filters above the list of samples.

const SORTS = [
  ["disputed", "most disputed first"],
  ["worst", "worst first"],
  ["best", "best first"],
  ["logged", "as logged"],
];

class Controls {
  /** `onFilter()` is called when filters or order change, `onSearch(query)` when the query changes. */
  constructor(index, runs, onFilter, onSearch) {
    this.index = index;
    this.runs = runs;
    this.onFilter = onFilter;
    this.onSearch = onSearch;
    this.reset();
    this.element = element("div", { class: "controls", role: "search", "aria-label": "Samples" });
    this.fill();
  }

  reset() {
    this.filters = structuredClone(NO_FILTERS);
    const disputed = this.index.disputed.some((value) => value > 0);
    this.sort = disputed || this.index.task.present.length > 1 ? "disputed" : "worst";
    this.query = "";
  }

  fill() {
    const fields = [
      this.#search(),
      this.#hasSeveralRuns() ? this.#run() : null,
      ...Object.keys(this.index.groups).map((kind) => this.#group(kind)),
      this.#points(),
      this.#unscored(),
      this.#check("scoresDiffer", "Only where official and robust differ", this.index.scoresDiffer),
      this.#hasSeveralRuns() ? this.#check("runsDiffer", "Only where runs differ", this.index.runsDiffer) : null,
      labelled("Order", choice(SORTS, this.sort, (value) => this.#set(() => (this.sort = value)))),
      element("button", { type: "button", click: () => this.#clear() }, "Clear filters"),
    ];
    this.element.replaceChildren(...fields.filter((field) => field !== null));
  }

  #hasSeveralRuns() {
    return this.index.task.present.length > 1;
  }

  #set(change) {
    change();
    this.onFilter();
  }

  #clear() {
    this.reset();
    this.fill();
    this.onSearch("");
    this.element.querySelector("input").focus();
  }

  #search() {
    let timer = 0;
    const onInput = (event) => {
      clearTimeout(timer);
      const query = event.target.value.trim();
      timer = setTimeout(() => {
        if (query !== this.query) this.onSearch((this.query = query));
      }, 200);
    };
    const input = element("input", { type: "search", input: onInput, autocomplete: "off", spellcheck: "false" });
    return labelled("Search in all texts", input, "text");
  }

  #run() {
    const options = [["any", "any"], ...this.index.task.present.map((run) => [String(run), this.runs[run].name])];
    return labelled("Run", choice(options, "any", (value) => this.#set(() => (this.filters.run = value))));
  }

  #group(kind) {
    const { names, of } = this.index.groups[kind];
    const counts = new Array(names.length).fill(0);
    for (const groups of of) for (const group of groups) counts[group] += 1;
    const sorted = names.map((name, group) => [String(group), `${name} (${counted(counts[group])})`]);
    sorted.sort((a, b) => a[1].localeCompare(b[1], "en", { numeric: true }));
    const onChange = (value) =>
      this.#set(() => {
        if (value === "") delete this.filters.groups[kind];
        else this.filters.groups[kind] = Number(value);
      });
    return labelled(kind[0].toUpperCase() + kind.slice(1), choice([["", "all"], ...sorted], "", onChange));
  }

  #points() {
    const { full_marks: full, whole } = this.index.task;
    const bound = (name, label) => {
      const input = (event) => {
        const value = event.target.valueAsNumber;
        this.#set(() => (this.filters[name] = Number.isNaN(value) ? null : value));
      };
      const step = whole ? 1 : "any";
      return element("input", { type: "number", min: 0, max: full, step, input, "aria-label": label });
    };
    return element(
      "div",
      { class: "field range", role: "group", "aria-label": "Official points" },
      element("span", {}, `Points, 0 to ${full}`),
      element("span", {}, bound("lowest", "lowest official points"), " to ", bound("highest", "highest official points")),
    );
  }

  #unscored() {
    const reasons = this.index.reasonCounts();
    if (reasons.length === 0) return null;
    const options = reasons.map(([reason, count]) => [`=${reason}`, `${reason} (${counted(count)})`]);
    const all = [["", "all samples"], ["any", "only unscored"], ...options];
    return labelled("Unscored", choice(all, "", (value) => this.#set(() => (this.filters.unscored = value))));
  }

  #check(name, label, marks) {
    const count = marks.reduce((sum, mark) => sum + mark, 0);
    const change = (event) => this.#set(() => (this.filters[name] = event.target.checked));
    const box = element("input", { type: "checkbox", change, disabled: count === 0 });
    return element("label", { class: "check" }, box, `${label} (${counted(count)})`);
  }
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
