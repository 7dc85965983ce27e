// The details of samples lie in compressed chunks; a chunk is unpacked when one of them is looked at.

const KEPT = 20;

const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** A response with what the element holds, unpacked. Nothing is fetched: the page forbids that. */
function unpacked(id) {
  const packed = new Blob([bytesOf(byId(id).textContent)]).stream();
  return new Response(packed.pipeThrough(new DecompressionStream("gzip")));
}

class Details {
  #number;
  #starts;
  #kept = new Map();

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

  /** The details of a chunk; the last few that were asked for are kept. */
  chunk(chunk) {
    const known = this.#kept.get(chunk) ?? unpacked(`x-chunk-${this.#number}-${chunk}`).json();
    this.#kept.delete(chunk);
    this.#kept.set(chunk, known);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value);
    return known;
  }
}
