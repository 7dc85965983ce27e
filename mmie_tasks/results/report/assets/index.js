// The columns of all samples, without their details: filters and orders.

const SCORE_KINDS = ["official", "robust"];
const EPSILON = 1e-9; // points closer than this are equal

const NO_FILTERS = {
  run: "any",
  groups: {},
  lowest: null,
  highest: null,
  unscored: "",
  scoresDiffer: false,
  runsDiffer: false,
};

class Index {
  constructor(task) {
    Object.assign(this, task.samples);
    this.task = task;
    this.size = this.ids.length;
    this.indexOf = new Map(this.ids.map((id, sample) => [id, sample]));
    this.scoresDiffer = this.#mark((sample) => task.present.some((run) => this.#scoresDiffer(run, sample)));
    this.runsDiffer = this.#mark((sample) => this.#runsDiffer(sample));
    this.orders = new Map();
  }

  #mark(test) {
    return Uint8Array.from({ length: this.size }, (_, sample) => test(sample));
  }

  isMissing(run, sample) {
    return Boolean(this.missing[run]?.[sample]);
  }

  #scoresDiffer(run, sample) {
    return !this.isMissing(run, sample) && differ(this.points.official[run][sample], this.points.robust[run][sample]);
  }

  #runsDiffer(sample) {
    const runs = this.task.present.filter((run) => !this.isMissing(run, sample));
    const [first, ...rest] = runs.map((run) => this.points.official[run][sample]);
    return rest.some((points) => differ(first, points));
  }

  /** Reasons for unscored samples, most frequent first: `[reason, samples]`. */
  reasonCounts() {
    const counts = new Map();
    for (let sample = 0; sample < this.size; sample += 1) {
      for (const reason of this.#reasonsOf(sample, this.task.present)) {
        counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
    }
    return [...counts].sort((a, b) => b[1] - a[1]);
  }

  #reasonsOf(sample, runs) {
    const reasons = new Set();
    for (const run of runs) {
      if (this.isMissing(run, sample)) continue;
      for (const kind of SCORE_KINDS) reasons.add(this.reasons[kind][run][sample]);
    }
    reasons.delete("");
    return reasons;
  }

  /** The samples that match, in order. `hits`: 1 for each sample that a search matches; null without a search. */
  select(filters, sort, hits) {
    return this.order(sort, filters.run).filter(
      (sample) => (hits === null || hits[sample]) && this.#matches(sample, filters),
    );
  }

  #matches(sample, filters) {
    if (filters.scoresDiffer && !this.scoresDiffer[sample]) return false;
    if (filters.runsDiffer && !this.runsDiffer[sample]) return false;
    for (const [kind, group] of Object.entries(filters.groups)) {
      if (!this.groups[kind].of[sample].includes(group)) return false;
    }
    const runs = this.#runsWith(sample, filters.run);
    if (runs.length === 0) return false;
    return this.#matchesReason(sample, runs, filters) && this.#matchesPoints(sample, runs, filters);
  }

  #runsWith(sample, run) {
    const runs = run === "any" ? this.task.present : [Number(run)];
    return runs.filter((index) => !this.isMissing(index, sample));
  }

  #matchesReason(sample, runs, filters) {
    if (filters.unscored === "") return true;
    const reasons = this.#reasonsOf(sample, runs);
    return filters.unscored === "any" ? reasons.size > 0 : reasons.has(filters.unscored.slice(1));
  }

  #matchesPoints(sample, runs, { lowest, highest }) {
    if (lowest === null && highest === null) return true;
    return runs.some((run) => {
      const points = this.points.official[run][sample];
      if (points === null) return false;
      return points >= (lowest ?? -Infinity) - EPSILON && points <= (highest ?? Infinity) + EPSILON;
    });
  }

  /** All samples, sorted; equals stay in the order of the log. */
  order(sort, run) {
    const name = `${sort} ${run}`;
    if (!this.orders.has(name)) {
      const samples = Array.from({ length: this.size }, (_, sample) => sample);
      const key = this.#key(sort, run);
      if (key) samples.sort((a, b) => key[a] - key[b] || a - b);
      this.orders.set(name, samples);
    }
    return this.orders.get(name);
  }

  /** Sort keys, ascending. Samples without points are neither best nor worst: they come last. */
  #key(sort, run) {
    if (sort === "logged") return null;
    if (sort === "disputed") return Float64Array.from(this.disputed, (value) => -value);
    const sign = sort === "best" ? -1 : 1;
    return Float64Array.from({ length: this.size }, (_, sample) => {
      const points = this.#runsWith(sample, run)
        .map((index) => this.points.official[index][sample])
        .filter((value) => value !== null);
      if (points.length === 0) return Number.MAX_VALUE;
      return (sign * points.reduce((sum, value) => sum + value, 0)) / points.length;
    });
  }
}

/** Whether points differ, or only one of two verdicts has points. */
function differ(a, b) {
  if (a === null || b === null) return a !== b;
  return Math.abs(a - b) > EPSILON;
}
