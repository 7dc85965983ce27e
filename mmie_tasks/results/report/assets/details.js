// Details of samples, in compressed chunks; a chunk is unpacked when one of its samples is opened.

const MAX_CHUNKS = 20; // unpacked, in memory

const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** A response with the unpacked content of an element, without any network request. */
function unpacked(id) {
  const packed = new Blob([bytesOf(byId(id).textContent)]).stream();
  return new Response(packed.pipeThrough(new DecompressionStream("gzip")));
}

class Details {
  #number;
  #starts;
  #chunks = new Map();

  /** `starts`: the index of the first sample of each chunk. */
  constructor(number, starts) {
    this.#number = number;
    this.#starts = starts;
  }

  get chunks() {
    return this.#starts.length;
  }

  start(chunk) {
    return this.#starts[chunk];
  }

  async of(sample) {
    let low = 0;
    let high = this.#starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle] <= sample) low = middle;
      else high = middle;
    }
    return (await this.chunk(low))[sample - this.#starts[low]];
  }

  /** The details of a chunk; recently used chunks stay in memory. */
  chunk(chunk) {
    const details = this.#chunks.get(chunk) ?? unpacked(`x-chunk-${this.#number}-${chunk}`).json();
    this.#chunks.delete(chunk);
    this.#chunks.set(chunk, details);
    if (this.#chunks.size > MAX_CHUNKS) this.#chunks.delete(this.#chunks.keys().next().value);
    return details;
  }
}
