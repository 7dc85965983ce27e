// Data and layout for the charting library. It interprets markup in texts, so untrusted texts are escaped.

const PATTERNS = ["", "/", "x", ".", "\\", "+"];
const MARKERS = ["circle", "square", "triangle-up", "cross", "star", "hexagon"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const MAX_LABEL = 40; // characters
const CHARACTER = 6.6; // pixels, on average
const ROW = 22; // pixels of a horizontal bar

/** A text that the library displays literally. */
function label(text, limit = MAX_LABEL) {
  const characters = [...String(text).replace(HIDDEN, "")];
  const short = characters.length > limit ? [...characters.slice(0, limit - 1), "…"] : characters;
  return short.join("").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The same in lines of at most so many pixels, where words allow it. */
function labelLines(text, width) {
  const limit = Math.max(8, Math.floor(width / CHARACTER));
  const lines = [""];
  for (const word of String(text).slice(0, 4 * limit).split(/\s+/)) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (longer.length <= limit || lines.at(-1) === "") lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const shown = lines.length > 3 ? [...lines.slice(0, 2), `${lines[2]}…`] : lines;
  return shown.map((line) => label(line, limit)).join("<br>");
}

/** Bars are horizontal where their labels do not fit below, or a text stands in place of a bar. */
function isHorizontal(chart, width) {
  const room = (width - 60) / chart.x.length;
  const isLong = chart.x.length > 7 || chart.x.some((text) => text.length * CHARACTER > room);
  return chart.type === "bars" && (isLong || chart.series.some((series) => series.why_not?.some(Boolean)));
}

/** The labels of horizontal bars take at most this many pixels. */
const labelWidth = (width) => 0.42 * width;

function heightOf(chart, width) {
  if (chart.type === "radar") return Math.min(380, 100 + 0.52 * width);
  if (chart.type === "heat") return 120 + 34 * chart.y.length;
  if (!isHorizontal(chart, width)) return 270;
  const bars = chart.series.filter((series) => series.reading === "official").length || 1;
  const lines = Math.max(...chart.x.map((x) => labelLines(x, labelWidth(width)).split("<br>").length));
  return 50 + chart.x.length * Math.max(ROW, 14 * bars + 8, 15 * lines + 4);
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
  chart.x.map((x, index) => {
    const value = series.values[index];
    const number = value === null ? "n/a" : chart.unit === "percent" ? value.toFixed(2) : counted(value);
    const low = series.low?.[index] ?? null;
    const between = low === null ? "" : ` (${low.toFixed(2)} – ${series.high[index].toFixed(2)})`;
    return `${label(x, 80)}<br>${label(runs[series.run].name, 60)}, ${series.reading}: ${number}${between}`;
  });

function errors(series, colours) {
  if (!series.low?.some((low) => low !== null)) return undefined;
  const reach = (ends, sign) =>
    series.values.map((value, index) => (value === null || ends[index] === null ? 0 : sign * (ends[index] - value)));
  const [array, arrayminus] = [reach(series.high, 1), reach(series.low, -1)];
  return { type: "data", symmetric: false, array, arrayminus, color: colours.ink, thickness: 1, width: 3 };
}

const hover = ({ chart, runs }, series) => ({ hoverinfo: "text", hovertext: texts(chart, series, runs) });

/** The range of the value axis. */
function valueRange(chart) {
  return { automargin: true, ...(chart.unit === "percent" ? { range: [0, 101], dtick: 20 } : { rangemode: "tozero" }) };
}

/** Official as bars, robust as open diamonds on them. */
function barShape(context) {
  const { chart, colours, layout, axes, width } = context;
  const horizontal = isHorizontal(chart, width);
  const positions = chart.x.map((_, index) => index);
  const data = chart.series.map((series) => {
    const along = horizontal ? { x: series.values, y: positions } : { x: positions, y: series.values };
    const official = series.reading === "official";
    const shape = { ...hover(context, series), ...along, offsetgroup: String(series.run), orientation: horizontal ? "h" : "v" };
    if (!official) {
      const marker = { symbol: "diamond-open", size: 8, color: colours.ink, line: { width: 1.5 } };
      return { ...shape, type: "scatter", mode: "markers", marker, cliponaxis: false };
    }
    const color = colours.runs[series.run % 6];
    const pattern = { shape: PATTERNS[series.run % 6], bgcolor: color, fgcolor: colours.paper, size: 7, solidity: 0.2 };
    const marker = { color, pattern, line: { color: colours.ink, width: 0.5 } };
    const error = errors(series, colours);
    const missing = { text: series.why_not?.map((text) => label(text, 60)), textposition: "outside", constraintext: "none", textfont: { size: 11, color: colours.faint } };
    const zeroed = horizontal && { x: series.values.map((value, index) => (series.why_not?.[index] ? 0 : value)) };
    return { ...shape, ...zeroed, ...missing, cliponaxis: false, type: "bar", marker, ...(error && { [horizontal ? "error_x" : "error_y"]: error }) };
  });
  const ticktext = chart.x.map((x) => (horizontal ? labelLines(x, labelWidth(width)) : label(x)));
  const nameAxis = { ...axes, tickvals: positions, ticktext, showgrid: false, automargin: true };
  const valueAxis = { ...axes, ...valueRange(chart) };
  const orientedAxes = horizontal ? { xaxis: valueAxis, yaxis: { ...nameAxis, autorange: "reversed" } } : { xaxis: nameAxis, yaxis: valueAxis };
  return { data, layout: { ...layout, ...orientedAxes, barmode: "group", scattermode: "group", bargap: 0.25, scattergap: 0.25 } };
}

function strokes(context, series) {
  const { colours } = context;
  const official = series.reading === "official";
  const color = colours.runs[series.run % 6];
  const symbol = `${MARKERS[series.run % 6]}${official ? "" : "-open"}`;
  const dash = official ? DASHES[series.run % 6] : "dot";
  return { line: { color, width: official ? 2 : 1.2, dash }, marker: { symbol, size: 7, color, line: { color: colours.ink, width: 0.5 } } };
}

function lineShape(context) {
  const { chart, colours, layout, axes, width } = context;
  const positions = chart.x.map((_, index) => index);
  const data = chart.series.map((series) => ({
    ...hover(context, series),
    ...strokes(context, series),
    type: "scatter",
    mode: "lines+markers",
    x: positions,
    y: series.values,
    ...(series.reading === "official" && { error_y: errors(series, colours) }),
  }));
  const range = [-0.4, chart.x.length - 0.6];
  const xaxis = { ...axes, range, tickvals: positions, ticktext: chart.x.map((x) => labelLines(x, width / chart.x.length)), showgrid: false, automargin: true };
  const yaxis = { ...axes, ...valueRange(chart) };
  return { data, layout: { ...layout, xaxis, yaxis } };
}

function radarShape(context) {
  const { chart, colours, layout, axes, width } = context;
  const round = (values) => [...values, values[0]];
  const positions = chart.x.map((_, index) => (360 * index) / chart.x.length);
  const data = chart.series.map((series) => ({
    ...hover(context, series),
    ...strokes(context, series),
    hovertext: round(texts(chart, series, context.runs)),
    type: "scatterpolar",
    mode: "lines+markers",
    r: round(series.values),
    theta: round(positions),
  }));
  const margin = Math.min(150, 0.24 * width);
  const ticktext = chart.x.map((x) => labelLines(x, margin));
  const angularaxis = { ...axes, tickvals: positions, ticktext, rotation: 90, direction: "clockwise" };
  const radialaxis = { ...axes, range: [0, 100], angle: 90, tickangle: 90, tickfont: { color: colours.faint, size: 10 } };
  const polar = { bgcolor: "rgba(0,0,0,0)", angularaxis, radialaxis };
  return { data, layout: { ...layout, polar, margin: { t: 40, r: margin, b: 40, l: margin } } };
}

function heatShape({ chart, layout, axes }) {
  const across = chart.x.map((_, index) => index);
  const down = chart.y.map((_, index) => index);
  const shown = (value) => (value === null ? "" : value.toFixed(0));
  const hoverText = (value, row, column) =>
    `length ${label(chart.x[column], 40)}, depth ${label(chart.y[row], 40)}<br>${value === null ? "n/a" : value.toFixed(2)}, ` +
    withNoun(chart.counts[row][column], "sample");
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
    hovertext: chart.z.map((row, y) => row.map((value, x) => hoverText(value, y, x))),
    colorbar: { thickness: 10, outlinewidth: 0, title: { text: "%" } },
  };
  const nameAxis = (positions, names, title) => ({ ...axes, tickvals: positions, ticktext: names.map((x) => label(x, 16)), showgrid: false, title: { text: title, standoff: 10 }, automargin: true });
  const yaxis = { ...nameAxis(down, chart.y, "depth"), autorange: "reversed" };
  return { data: [data], layout: { ...layout, xaxis: nameAxis(across, chart.x, "length"), yaxis } };
}
