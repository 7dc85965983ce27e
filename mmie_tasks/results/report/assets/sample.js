// An opened sample: question, gold answer, and answer, verdicts and replies of each run.

/** Points on the benchmark's own scale: whole numbers, or with two or three decimals. */
function formatPoints(points, task) {
  if (task.whole && Number.isInteger(points)) return String(points);
  return points.toFixed(task.full_marks <= 1 ? 3 : 2);
}

/** A run's name with its colour. */
function runName(runs, index) {
  return element("span", { class: `run run-${index % 6}` }, element("bdi", {}, runs[index].name));
}

/** The official, the robust or the expected verdict. */
function verdictLine(kind, verdict, differs, task) {
  const name = element("span", { class: "reading" }, kind);
  if ("unscored" in verdict) {
    const detail = verdict.detail ? element("span", { class: "log-text", dir: "auto" }, verdict.detail) : "";
    return element("p", { class: "verdict" }, name, element("b", {}, "n/a"), ` ${verdict.unscored} `, detail);
  }
  const points = element("b", {}, formatPoints(verdict.points, task));
  const reading = verdict.reading ? element("q", { class: "log-text", dir: "auto" }, verdict.reading) : "";
  const style = differs ? "verdict differs" : "verdict";
  const entropy = typeof verdict.entropy_bits === "number" ? ` (entropy ${verdict.entropy_bits.toFixed(2)} bits)` : "";
  const from = element("span", { class: "faint" }, ` of ${task.full_marks}${entropy}`, reading ? " read from " : "");
  return element("p", { class: style }, name, points, from, reading);
}

function dollars(cost) {
  return `$${cost.toFixed(cost >= 1 ? 2 : 5)}`;
}

function replyBlock(reply, index, total) {
  const facts = [reply.cached ? "from the cache" : "new reply"];
  if (reply.finish) facts.push(`finish: ${reply.finish}`);
  if (reply.input_tokens || reply.output_tokens) {
    facts.push(`${counted(reply.input_tokens ?? 0)} tokens in, ${counted(reply.output_tokens ?? 0)} out`);
  }
  if (typeof reply.cost_usd === "number") facts.push(dollars(reply.cost_usd));
  const name = reply.instead_of ? `${reply.instead_of}, answered by ${reply.model}` : reply.model || "unnamed model";
  const model = element("span", { class: "log-text", dir: "auto" }, name);
  const title = total > 1 ? `Judge's reply ${index + 1} of ${total}` : "Judge's reply";
  return element(
    "div",
    { class: "reply" },
    element("h5", {}, title),
    logText(reply.text, 600),
    element("p", { class: "faint" }, model, ` · ${facts.join(" · ")}`),
  );
}

function factList(detail, task) {
  const rows = Object.entries(detail.facts ?? {});
  if (task.signatures.length > 0 && detail.signature !== null && detail.signature !== undefined) {
    rows.push(["signature", task.signatures[detail.signature] ?? ""]);
  }
  const items = rows.flatMap(([name, value]) => [
    element("dt", { class: "log-text" }, name),
    element("dd", { class: "log-text", dir: "auto" }, typeof value === "boolean" ? (value ? "yes" : "no") : String(value)),
  ]);
  return items.length === 0 ? null : element("dl", {}, ...items);
}

function componentTable(parts) {
  const names = [...new Set(SCORE_KINDS.flatMap((kind) => Object.keys(parts?.[kind] ?? {})))];
  if (names.length === 0) return null;
  const cell = (value) => element("td", {}, value === undefined ? "n/a" : (100 * value).toFixed(2));
  const rows = names.map((name) =>
    element("tr", {}, element("th", { scope: "row", class: "log-text" }, name), ...SCORE_KINDS.map((kind) => cell(parts[kind]?.[name]))),
  );
  const titles = ["Component", "Official", "Robust"].map((title) => element("th", { scope: "col" }, title));
  const table = element("table", { class: "figures" }, element("thead", {}, element("tr", {}, ...titles)), element("tbody", {}, ...rows));
  return element("div", { class: "wide" }, table);
}

function runBlock(detail, run, { task, runs }) {
  const title = element("h4", {}, runName(runs, run));
  if (!detail) return element("div", { class: "of-run" }, title, element("p", { class: "faint" }, "not in this run"));
  const { official, robust, expected } = detail;
  const differs = differ(official.points ?? null, robust.points ?? null);
  const replies = detail.replies ?? [];
  const none = element("p", { class: "faint" }, "empty answer");
  return element(
    "div",
    { class: "of-run" },
    title,
    verdictLine("official", official, differs, task),
    verdictLine("robust", robust, differs, task),
    expected ? verdictLine("expected", expected, false, task) : null,
    element("h5", {}, "Answer"),
    detail.answer.length > 0 ? segments(detail.answer) : none,
    ...replies.map((reply, index) => replyBlock(reply, index, replies.length)),
    componentTable(detail.parts),
    factList(detail, task),
  );
}

function titled(title, pieces) {
  return pieces.length === 0 ? null : element("div", {}, element("h4", {}, title), segments(pieces));
}

/** All details of a sample. `context`: `{task, runs}`. */
function sampleBlocks(detail, context) {
  const runs = context.task.present.map((run) => runBlock(detail.runs[run], run, context));
  return [
    titled("Question", detail.question),
    titled("Gold answer", detail.gold),
    element("div", { class: "in-runs" }, ...runs),
  ].filter((part) => part !== null);
}
