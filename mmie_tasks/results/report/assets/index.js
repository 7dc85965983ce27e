// What is known of every sample without its details: enough to filter and to sort.

const READINGS = ["official", "robust"];
const EPSILON = 1e-9; // points closer than this are the same

const WANTED = {
  run: "any",
  groups: {},
  lowest: null,
  highest: null,
  unscored: "",
  readings: false,
  runs: false,
};

class Index {
  constructor(task) {
    Object.assign(this, task.samples);
    this.task = task;
    this.size = this.ids.length;
    this.place = new Map(this.ids.map((id, sample) => [id, sample]));
    this.readingsDiffer = this.#mark((sample) => task.present.some((run) => this.#twofold(run, sample)));
    this.runsDiffer = this.#mark((sample) => this.#disagree(sample));
    this.orders = new Map();
  }

  #mark(holds) {
    return Uint8Array.from({ length: this.size }, (_, sample) => holds(sample));
  }

  isMissing(run, sample) {
    return Boolean(this.missing[run]?.[sample]);
  }

  #twofold(run, sample) {
    return !this.isMissing(run, sample) && apart(this.points.official[run][sample], this.points.robust[run][sample]);
  }

  #disagree(sample) {
    const found = this.task.present.filter((run) => !this.isMissing(run, sample));
    const [first, ...others] = found.map((run) => this.points.official[run][sample]);
    return others.some((other) => apart(first, other));
  }

  /** Reasons for having no score, most frequent first: `[reason, samples]`. */
  reasonCounts() {
    const counts = new Map();
    for (let sample = 0; sample < this.size; sample += 1) {
      for (const reason of this.#reasonsOf(sample, this.task.present)) {
        counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
    }
    return [...counts].sort((one, other) => other[1] - one[1]);
  }

  #reasonsOf(sample, runs) {
    const found = new Set();
    for (const run of runs) {
      if (this.isMissing(run, sample)) continue;
      for (const reading of READINGS) found.add(this.reasons[reading][run][sample]);
    }
    found.delete("");
    return found;
  }

  /** The samples that fit, in order. `hits`: of a search, a mark a sample; null without a search. */
  select(wanted, sort, hits) {
    return this.order(sort, wanted.run).filter(
      (sample) => (hits === null || hits[sample]) && this.#fits(sample, wanted),
    );
  }

  #fits(sample, wanted) {
    if (wanted.readings && !this.readingsDiffer[sample]) return false;
    if (wanted.runs && !this.runsDiffer[sample]) return false;
    for (const [kind, group] of Object.entries(wanted.groups)) {
      if (!this.groups[kind].of[sample].includes(group)) return false;
    }
    const runs = this.#looked(sample, wanted.run);
    if (runs.length === 0) return false;
    return this.#fitsReason(sample, runs, wanted) && this.#fitsPoints(sample, runs, wanted);
  }

  #looked(sample, run) {
    const runs = run === "any" ? this.task.present : [Number(run)];
    return runs.filter((each) => !this.isMissing(each, sample));
  }

  #fitsReason(sample, runs, wanted) {
    if (wanted.unscored === "") return true;
    const reasons = this.#reasonsOf(sample, runs);
    return wanted.unscored === "any" ? reasons.size > 0 : reasons.has(wanted.unscored.slice(1));
  }

  #fitsPoints(sample, runs, { lowest, highest }) {
    if (lowest === null && highest === null) return true;
    return runs.some((run) => {
      const points = this.points.official[run][sample];
      if (points === null) return false;
      return points >= (lowest ?? -Infinity) - EPSILON && points <= (highest ?? Infinity) + EPSILON;
    });
  }

  /** All samples, sorted; what compares equal stays as it was logged. */
  order(sort, run) {
    const name = `${sort} ${run}`;
    if (!this.orders.has(name)) {
      const samples = Array.from({ length: this.size }, (_, sample) => sample);
      const key = this.#key(sort, run);
      if (key) samples.sort((one, other) => key[one] - key[other] || one - other);
      this.orders.set(name, samples);
    }
    return this.orders.get(name);
  }

  /** The least key comes first. Without points a sample is neither best nor worst: it comes last. */
  #key(sort, run) {
    if (sort === "logged") return null;
    if (sort === "disputed") return Float64Array.from(this.disputed, (value) => -value);
    const sign = sort === "best" ? -1 : 1;
    return Float64Array.from({ length: this.size }, (_, sample) => {
      const points = this.#looked(sample, run)
        .map((each) => this.points.official[each][sample])
        .filter((each) => each !== null);
      if (points.length === 0) return Number.MAX_VALUE;
      return (sign * points.reduce((sum, each) => sum + each, 0)) / points.length;
    });
  }
}

/** Whether points differ, or only one of two is scored. */
function apart(one, other) {
  if (one === null || other === null) return one !== other;
  return Math.abs(one - other) > EPSILON;
}
