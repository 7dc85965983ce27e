// One sample, opened: question, gold, and what became of it in each run.

const PICTURE = /^data:image\/(webp|png|jpeg|gif);base64,[A-Za-z0-9+/=]*$/;

/** Texts and pictures in their order; a picture that is not there says why. */
function segments(found) {
  return make("div", { class: "segments" }, ...found.map(segment));
}

function segment(piece) {
  if ("text" in piece) return said(piece.text);
  const note = piece.note ? make("span", { class: "said", dir: "auto" }, piece.note) : "";
  const name = make("span", { class: "said faint", dir: "auto" }, piece.alt);
  if (!piece.image || !PICTURE.test(piece.image)) {
    return make("p", { class: "absent" }, note || "picture not shown", " ", name);
  }
  const image = make("img", { src: piece.image, alt: piece.alt || "picture", loading: "lazy" });
  return make("figure", { class: "picture" }, image, note);
}

function titled(words, found) {
  return found.length === 0 ? null : make("div", {}, make("h4", {}, words), segments(found));
}

/** A verdict of one reading. */
function verdict(reading, found, differs, task) {
  const name = make("span", { class: "reading" }, reading);
  if ("unscored" in found) {
    const why = found.detail ? make("span", { class: "said", dir: "auto" }, found.detail) : "";
    return make("p", { class: "verdict" }, name, make("b", {}, "n/a"), ` ${found.unscored} `, why);
  }
  const points = make("b", {}, inPoints(found.points, task));
  const read = found.reading ? make("q", { class: "said", dir: "auto" }, found.reading) : "";
  const kind = differs ? "verdict differs" : "verdict";
  const from = make("span", { class: "faint" }, ` of ${task.full_marks}`, read ? " read from " : "");
  return make("p", { class: kind }, name, points, from, read);
}

function dollars(cost) {
  return `$${cost.toFixed(cost >= 1 ? 2 : 5)}`;
}

function reply(found, place, total) {
  const facts = [found.cached ? "remembered, not asked again" : "asked"];
  if (found.finish) facts.push(`finish: ${found.finish}`);
  if (found.input_tokens || found.output_tokens) {
    facts.push(`${counted(found.input_tokens ?? 0)} tokens in, ${counted(found.output_tokens ?? 0)} out`);
  }
  if (typeof found.cost_usd === "number") facts.push(dollars(found.cost_usd));
  const model = make("span", { class: "said", dir: "auto" }, found.model || "unnamed model");
  const title = total > 1 ? `Judge's reply ${place + 1} of ${total}` : "Judge's reply";
  return make(
    "div",
    { class: "reply" },
    make("h5", {}, title),
    said(found.text, 600),
    make("p", { class: "faint" }, model, ` · ${facts.join(" · ")}`),
  );
}

function factsOf(detail, task) {
  const rows = Object.entries(detail.facts ?? {});
  if (task.signatures.length > 0 && detail.signature !== null && detail.signature !== undefined) {
    rows.push(["signature", task.signatures[detail.signature] ?? ""]);
  }
  const made = rows.flatMap(([name, value]) => [
    make("dt", { class: "said" }, name),
    make("dd", { class: "said", dir: "auto" }, typeof value === "boolean" ? (value ? "yes" : "no") : String(value)),
  ]);
  return made.length === 0 ? null : make("dl", {}, ...made);
}

function partsOf(parts) {
  const names = [...new Set(READINGS.flatMap((reading) => Object.keys(parts?.[reading] ?? {})))];
  if (names.length === 0) return null;
  const cell = (value) => make("td", {}, value === undefined ? "n/a" : (100 * value).toFixed(2));
  const rows = names.map((name) =>
    make("tr", {}, make("th", { scope: "row", class: "said" }, name), ...READINGS.map((each) => cell(parts[each]?.[name]))),
  );
  const titles = ["Component", "Official", "Robust"].map((words) => make("th", { scope: "col" }, words));
  const table = make("table", { class: "figures" }, make("thead", {}, make("tr", {}, ...titles)), make("tbody", {}, ...rows));
  return make("div", { class: "wide" }, table);
}

function inRun(detail, run, { task, runs }) {
  const title = make("h4", {}, runName(runs, run));
  if (!detail) return make("div", { class: "of-run" }, title, make("p", { class: "faint" }, "not in this run"));
  const { official, robust } = detail;
  const differs = apart(official.points ?? null, robust.points ?? null);
  const replies = detail.replies ?? [];
  const none = make("p", { class: "faint" }, "the model said nothing");
  return make(
    "div",
    { class: "of-run" },
    title,
    verdict("official", official, differs, task),
    verdict("robust", robust, differs, task),
    make("h5", {}, "Answer"),
    detail.answer.length > 0 ? segments(detail.answer) : none,
    ...replies.map((each, place) => reply(each, place, replies.length)),
    partsOf(detail.parts),
    factsOf(detail, task),
  );
}

/** The whole sample. `shown`: `{task, runs}`. */
function wholeSample(detail, shown) {
  const runs = shown.task.present.map((run) => inRun(detail.runs[run], run, shown));
  return [
    titled("Question", detail.question),
    titled("Gold", detail.gold),
    make("div", { class: "in-runs" }, ...runs),
  ].filter((part) => part !== null);
}
