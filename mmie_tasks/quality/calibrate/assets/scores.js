// One rater's scores: kept in the browser, and as CSV.

const STORE = "mmie-tasks people";
const UNRATABLE = "cannot be rated"; // as in labels.py
const CSV_COLUMNS = ["id", "answer", "seed", "rater", "score"];

/** The browser's storage; null where there is none (a private window, a sandbox, or a file on some browsers). */
function openStorage() {
  try {
    localStorage.setItem(STORE, localStorage.getItem(STORE) ?? "");
    return localStorage;
  } catch {
    return null;
  }
}

/** A cell as RFC 4180 has it. A text that a spreadsheet would compute gets an apostrophe, as `csv_cell` in labels.py. */
const cellOf = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const inertCell = (text) => (/^[=+\-@']/.test(text) ? `'${text}` : text);

class Scores {
  /** `onLost()` is called when the browser does not keep the scores. */
  constructor(page, onLost) {
    this.page = page;
    this.onLost = onLost;
    this.storage = openStorage();
    if (this.storage === null) onLost();
    this.others = new Map(); // name -> points, of raters of a browser without storage
    this.points = new Map(); // number of the sample -> points, or UNRATABLE
    this.unexported = false;
    this.rater = "";
  }

  get lastRater() {
    return this.storage?.getItem(STORE) ?? "";
  }

  get #key() {
    return `${STORE} ${this.page.key} ${this.rater}`;
  }

  /** Whether the storage event concerns these scores, which another tab has changed. */
  isOurs(event) {
    return this.rater !== "" && event.key === this.#key;
  }

  load(rater) {
    if (this.rater) this.others.set(this.rater, this.points);
    this.rater = rater;
    let kept = null;
    try {
      kept = JSON.parse(this.storage?.getItem(this.#key) ?? "null");
    } catch {
      // not ours: begin anew
    }
    const isValid = ([sample, points]) => sample in this.page.samples && (points === UNRATABLE || this.isOnScale(points));
    const pairs = Array.isArray(kept?.points) ? kept.points.filter(isValid) : [];
    this.points = this.storage ? new Map(pairs) : (this.others.get(rater) ?? new Map());
    this.unexported = this.storage ? Boolean(kept?.unexported) : this.points.size > 0;
  }

  isOnScale(points) {
    if (!Number.isFinite(points) || points < 0 || points > this.page.full_marks) return false;
    return !this.page.whole || Number.isInteger(points);
  }

  set(sample, points) {
    if (points === null) this.points.delete(sample);
    else this.points.set(sample, points);
    this.#keep(true);
  }

  exported() {
    this.#keep(false);
  }

  #keep(unexported) {
    this.unexported = unexported && this.points.size > 0;
    try {
      this.storage?.setItem(this.#key, JSON.stringify({ points: [...this.points], unexported: this.unexported }));
      this.storage?.setItem(STORE, this.rater);
    } catch {
      this.onLost(); // the storage is full
    }
  }

  /** The first sample from `start` on that has no score, -1 if all have one. */
  firstWithout(start = 0) {
    return this.page.samples.findIndex((_, sample) => sample >= start && !this.points.has(sample));
  }

  /** How many samples before the last scored one have no score. */
  get gaps() {
    return Math.max(0, ...[...this.points.keys()].map((sample) => sample + 1)) - this.points.size;
  }

  get csv() {
    const { samples, seed } = this.page;
    const scored = [...this.points].sort(([a], [b]) => a - b);
    const rows = scored.map(([sample, points]) => {
      const { cell, answer } = samples[sample];
      return [cell, answer, seed, inertCell(this.rater), String(points)];
    });
    return [CSV_COLUMNS, ...rows].map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
  }

  get fileName() {
    return `people-${this.rater.replace(/[^\p{L}\p{N}._-]+/gu, "_")}.csv`;
  }
}
