// Searching the details: chunk by chunk, so that the page stays quick and the search can be stopped.

/** Every text of a value, joined: pictures left out. */
function textsOf(value, found = []) {
  if (typeof value === "string") found.push(value);
  else if (value !== null && typeof value === "object") {
    for (const [name, inner] of Object.entries(value)) if (name !== "image") textsOf(inner, found);
  }
  return found;
}

const folded = (text) => text.toLowerCase();

class Search {
  #stopped = false;

  /** `told(search)` is called as samples are found, and once at the end. */
  constructor(words, index, details, told) {
    this.words = folded(words);
    this.hits = new Uint8Array(index.size);
    this.looked = 0;
    this.done = false;
    this.index = index;
    this.details = details;
    this.told = told;
  }

  stop() {
    this.#stopped = true;
  }

  async run() {
    const { ids, first, size } = this.index;
    for (let sample = 0; sample < size; sample += 1) {
      this.hits[sample] = folded(`${ids[sample]}\n${first[sample]}`).includes(this.words);
    }
    this.told(this);
    let last = performance.now();
    for (let chunk = 0; chunk < this.details.chunks && !this.#stopped; chunk += 1) {
      await this.#look(chunk);
      if (performance.now() - last < 100 || this.#stopped) continue;
      this.told(this);
      await new Promise((resume) => setTimeout(resume));
      last = performance.now();
    }
    if (this.#stopped) return;
    this.done = true;
    this.told(this);
  }

  async #look(chunk) {
    const start = this.details.start(chunk);
    const found = await this.details.chunk(chunk);
    found.forEach((detail, offset) => {
      if (this.hits[start + offset]) return;
      this.hits[start + offset] = textsOf(detail).some((text) => folded(text).includes(this.words));
    });
    this.looked = start + found.length;
  }
}
