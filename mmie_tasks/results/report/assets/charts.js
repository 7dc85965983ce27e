// Charts, drawn when they scroll into view; the charting library is unpacked for the first one.

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false };

let library = null;

/** The library as a script of this page: its hash is allowed in the page's policy. */
function loadLibrary() {
  library ??= unpacked("x-library")
    .text()
    .then((text) => {
      document.head.append(element("script", {}, text));
      return window.Plotly;
    });
  return library;
}

/** A colour of the style sheet, in the current theme. */
function colour(name) {
  const probe = element("span", { hidden: true });
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function palette() {
  return {
    ink: colour("ink"),
    faint: colour("faint"),
    grid: colour("line"),
    paper: colour("paper"),
    runs: [0, 1, 2, 3, 4, 5].map((run) => colour(`run-${run}`)),
  };
}

class Plots {
  #charts = new Map(); // element -> chart
  #drawn = new Set();

  constructor(runs) {
    this.runs = runs;
    this.observer = new IntersectionObserver((entries) => this.#onVisible(entries), { rootMargin: "300px" });
  }

  watch(section, task) {
    for (const figure of section.querySelectorAll(".chart")) {
      const plot = figure.querySelector(".plot");
      const chart = task.charts[Number(figure.dataset.chart)];
      this.#charts.set(plot, { ...chart, full_marks: task.full_marks });
      const height = heightOf(chart, plot.clientWidth);
      plot.style.height = `${height}px`;
      figure.style.gridRow = `span ${Math.ceil(height / 420)}`; // small charts go beside it
      this.observer.observe(plot);
    }
  }

  #onVisible(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.observer.unobserve(target);
      this.#drawn.add(target);
      this.#draw(target, palette());
    }
  }

  async #draw(plot, colours) {
    const plotly = await loadLibrary();
    const { data, layout } = shapeOf(this.#charts.get(plot), this.runs, colours, plot.clientWidth);
    await plotly.react(plot, data, layout, CONFIG);
    plot.dataset.drawn = "";
  }

  redraw() {
    const colours = palette();
    for (const plot of this.#drawn) this.#draw(plot, colours);
  }
}
