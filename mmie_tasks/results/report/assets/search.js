// Search in the details, chunk by chunk, so that the page stays responsive and the search can be stopped.

/** Every text in a JSON value, without the ids of images. */
function textsOf(value, texts = []) {
  if (typeof value === "string") texts.push(value);
  else if (value !== null && typeof value === "object") {
    for (const [name, inner] of Object.entries(value)) if (name !== "image") textsOf(inner, texts);
  }
  return texts;
}

const folded = (text) => text.toLowerCase();

class Search {
  #stopped = false;

  /** `onProgress(search)` is called as samples match, and once at the end. */
  constructor(query, index, details, onProgress) {
    this.query = folded(query);
    this.hits = new Uint8Array(index.size);
    this.searched = 0;
    this.done = false;
    this.index = index;
    this.details = details;
    this.onProgress = onProgress;
  }

  stop() {
    this.#stopped = true;
  }

  async run() {
    const { ids, first, size } = this.index;
    for (let sample = 0; sample < size; sample += 1) {
      this.hits[sample] = folded(`${ids[sample]}\n${first[sample]}`).includes(this.query);
    }
    this.onProgress(this);
    let last = performance.now();
    for (let chunk = 0; chunk < this.details.chunks && !this.#stopped; chunk += 1) {
      await this.#searchChunk(chunk);
      if (performance.now() - last < 100 || this.#stopped) continue;
      this.onProgress(this);
      await new Promise((resume) => setTimeout(resume));
      last = performance.now();
    }
    if (this.#stopped) return;
    this.done = true;
    this.onProgress(this);
  }

  async #searchChunk(chunk) {
    const start = this.details.start(chunk);
    const details = await this.details.chunk(chunk);
    details.forEach((detail, offset) => {
      if (this.hits[start + offset]) return;
      this.hits[start + offset] = textsOf(detail).some((text) => folded(text).includes(this.query));
    });
    this.searched = start + details.length;
  }
}
