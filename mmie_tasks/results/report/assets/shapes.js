// What the charting library is told to draw. Its texts know a little markup: strangers' do not.

const PATTERNS = ["", "/", "x", ".", "\\", "+"];
const MARKERS = ["circle", "square", "triangle-up", "cross", "star", "hexagon"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const LONGEST = 28;
const ROW = 22; // pixels of a bar that lies

/** A text that the library shows as it is. */
function label(text, longest = LONGEST) {
  const characters = [...String(text).replace(HIDDEN, "")];
  const short = characters.length > longest ? [...characters.slice(0, longest - 1), "…"] : characters;
  return short.join("").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Bars lie where their labels have no room below. */
function liesDown(chart) {
  return chart.type === "bars" && (chart.x.length > 7 || chart.x.some((text) => text.length > 14));
}

function heightOf(chart) {
  if (chart.type === "radar") return 380;
  if (chart.type === "heat") return 120 + 34 * chart.y.length;
  if (!liesDown(chart)) return 270;
  const bars = chart.series.filter((series) => series.reading === "official").length || 1;
  return 50 + chart.x.length * Math.max(ROW, 14 * bars + 8);
}

function shapeOf(chart, runs, colours, width) {
  const axes = { linecolor: colours.grid, gridcolor: colours.grid, zeroline: false, fixedrange: true };
  const layout = {
    font: { family: "system-ui, sans-serif", size: 12, color: colours.ink },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { t: 10, r: 12, b: 36, l: 44 },
    hoverlabel: { bgcolor: colours.paper, bordercolor: colours.ink, font: { color: colours.ink }, namelength: 0 },
    showlegend: false,
    dragmode: false,
  };
  const shape = { bars: barShape, histogram: barShape, lines: lineShape, radar: radarShape, heat: heatShape }[chart.type];
  return shape({ chart, runs, colours, layout, axes, width });
}

const texts = (chart, series, runs) =>
  chart.x.map((x, place) => {
    const value = series.values[place];
    const number = value === null ? "n/a" : chart.unit === "percent" ? value.toFixed(2) : counted(value);
    const low = series.low?.[place] ?? null;
    const between = low === null ? "" : ` (${low.toFixed(2)} – ${series.high[place].toFixed(2)})`;
    return `${label(x, 80)}<br>${label(runs[series.run].name, 60)}, ${series.reading}: ${number}${between}`;
  });

function errors(series, colours) {
  if (!series.low?.some((low) => low !== null)) return undefined;
  const reach = (ends, sign) =>
    series.values.map((value, place) => (value === null || ends[place] === null ? 0 : sign * (ends[place] - value)));
  const [array, arrayminus] = [reach(series.high, 1), reach(series.low, -1)];
  return { type: "data", symmetric: false, array, arrayminus, color: colours.ink, thickness: 1, width: 3 };
}

const told = ({ chart, runs }, series) => ({ hoverinfo: "text", hovertext: texts(chart, series, runs) });

/** How far the axis of the numbers goes. */
function spread(chart) {
  return { automargin: true, ...(chart.unit === "percent" ? { range: [0, 101], dtick: 20 } : { rangemode: "tozero" }) };
}

/** Official as bars, robust as open diamonds on them. */
function barShape(given) {
  const { chart, colours, layout, axes, width } = given;
  const lying = liesDown(chart);
  const places = chart.x.map((_, place) => place);
  const data = chart.series.map((series) => {
    const along = lying ? { x: series.values, y: places } : { x: places, y: series.values };
    const official = series.reading === "official";
    const shape = { ...told(given, series), ...along, offsetgroup: String(series.run), orientation: lying ? "h" : "v" };
    if (!official) {
      const marker = { symbol: "diamond-open", size: 8, color: colours.ink, line: { width: 1.5 } };
      return { ...shape, type: "scatter", mode: "markers", marker };
    }
    const color = colours.runs[series.run % 6];
    const pattern = { shape: PATTERNS[series.run % 6], bgcolor: color, fgcolor: colours.paper, size: 7, solidity: 0.2 };
    const marker = { color, pattern, line: { color: colours.ink, width: 0.5 } };
    const error = errors(series, colours);
    return { ...shape, type: "bar", marker, ...(error && { [lying ? "error_x" : "error_y"]: error }) };
  });
  const named = { ...axes, tickvals: places, ticktext: chart.x.map((x) => label(x, width < 420 ? 16 : LONGEST)), showgrid: false, automargin: true };
  const valued = { ...axes, ...spread(chart) };
  const turned = lying ? { xaxis: valued, yaxis: { ...named, autorange: "reversed" } } : { xaxis: named, yaxis: valued };
  return { data, layout: { ...layout, ...turned, barmode: "group", scattermode: "group", bargap: 0.25, scattergap: 0.25 } };
}

function strokes(given, series) {
  const { colours } = given;
  const official = series.reading === "official";
  const color = colours.runs[series.run % 6];
  const symbol = `${MARKERS[series.run % 6]}${official ? "" : "-open"}`;
  const dash = official ? DASHES[series.run % 6] : "dot";
  return { line: { color, width: official ? 2 : 1.2, dash }, marker: { symbol, size: 7, color, line: { color: colours.ink, width: 0.5 } } };
}

function lineShape(given) {
  const { chart, colours, layout, axes } = given;
  const places = chart.x.map((_, place) => place);
  const data = chart.series.map((series) => ({
    ...told(given, series),
    ...strokes(given, series),
    type: "scatter",
    mode: "lines+markers",
    x: places,
    y: series.values,
    ...(series.reading === "official" && { error_y: errors(series, colours) }),
  }));
  const range = [-0.4, chart.x.length - 0.6];
  const xaxis = { ...axes, range, tickvals: places, ticktext: chart.x.map((x) => label(x, 22)), showgrid: false, automargin: true };
  const yaxis = { ...axes, ...spread(chart) };
  return { data, layout: { ...layout, xaxis, yaxis } };
}

function radarShape(given) {
  const { chart, colours, layout, axes, width } = given;
  const round = (values) => [...values, values[0]];
  const places = chart.x.map((_, place) => (360 * place) / chart.x.length);
  const data = chart.series.map((series) => ({
    ...told(given, series),
    ...strokes(given, series),
    hovertext: round(texts(chart, series, given.runs)),
    type: "scatterpolar",
    mode: "lines+markers",
    r: round(series.values),
    theta: round(places),
  }));
  const longest = width < 420 ? 11 : 18;
  const ticktext = chart.x.map((x) => label(x, longest));
  const angularaxis = { ...axes, tickvals: places, ticktext, rotation: 90, direction: "clockwise" };
  const radialaxis = { ...axes, range: [0, 100], angle: 90, tickangle: 90, tickfont: { color: colours.faint, size: 10 } };
  const polar = { bgcolor: "rgba(0,0,0,0)", angularaxis, radialaxis };
  return { data, layout: { ...layout, polar, margin: { t: 34, r: 7.5 * longest, b: 30, l: 7.5 * longest } } };
}

function heatShape({ chart, layout, axes }) {
  const across = chart.x.map((_, place) => place);
  const down = chart.y.map((_, place) => place);
  const shown = (value) => (value === null ? "" : value.toFixed(0));
  const words = (value, row, column) =>
    `length ${label(chart.x[column], 40)}, depth ${label(chart.y[row], 40)}<br>${value === null ? "n/a" : value.toFixed(2)}, ` +
    plural(chart.counts[row][column], "sample");
  const data = {
    type: "heatmap",
    x: across,
    y: down,
    z: chart.z,
    zmin: 0,
    zmax: 100,
    colorscale: "Cividis",
    xgap: 2,
    ygap: 2,
    text: chart.z.map((row) => row.map(shown)),
    texttemplate: "%{text}",
    hoverinfo: "text",
    hovertext: chart.z.map((row, y) => row.map((value, x) => words(value, y, x))),
    colorbar: { thickness: 10, outlinewidth: 0, title: { text: "%" } },
  };
  const named = (places, names, title) => ({ ...axes, tickvals: places, ticktext: names.map((x) => label(x, 16)), showgrid: false, title: { text: title, standoff: 10 }, automargin: true });
  const yaxis = { ...named(down, chart.y, "depth"), autorange: "reversed" };
  return { data: [data], layout: { ...layout, xaxis: named(across, chart.x, "length"), yaxis } };
}
