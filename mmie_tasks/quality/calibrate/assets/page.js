// The page: one sample at a time, its score, and the ways from one to another.

const page = inert("x-data");
const { samples } = page;
const scores = new Scores(page, () => (byId("x-storage").hidden = false));
const field = byId("x-field"); // null where there are buttons
let current = 0;
let isReferenceOpen = false;

const marks = samples.map((_, sample) => element("button", { type: "button", click: () => show(sample) }, String(sample + 1)));
const pointButtons = [...document.querySelectorAll("[data-points]")];

// What is shown.

/** Segments with their pictures, each of which a button enlarges. */
function content(pieces) {
  const node = segments(pieces, Infinity);
  for (const image of node.querySelectorAll("img")) {
    const button = element("button", { type: "button", class: "zoom", title: "Enlarge", click: () => enlarge(image) });
    image.replaceWith(button);
    button.append(image);
  }
  return node;
}

function enlarge(image) {
  byId("x-zoom").querySelector(".whole").replaceChildren(image.cloneNode());
  byId("x-zoom").showModal();
}

function reference(pieces) {
  if (pieces.length === 0) return null;
  const title = element("summary", {}, "Reference answer");
  return element("details", { class: "reference", open: isReferenceOpen }, title, content(pieces));
}

function show(sample, message = "") {
  isReferenceOpen = document.querySelector(".reference")?.open ?? isReferenceOpen;
  current = Math.min(Math.max(sample, 0), samples.length - 1);
  const { id, question, gold, shown } = samples[current];
  const heading = `Sample ${counted(current + 1)} of ${counted(samples.length)}`;
  const title = element("h2", { id: "x-title", tabindex: "-1" }, heading, " ", element("small", { class: "log-text faint", dir: "auto" }, id));
  const empty = element("p", { class: "absent" }, "The answer is empty.");
  byId("x-sample").replaceChildren(
    title,
    element("section", {}, element("h3", {}, "Question"), content(question), reference(gold) ?? ""),
    element("section", { class: "answer" }, element("h3", {}, "Answer to score"), shown.length > 0 ? content(shown) : empty),
  );
  refresh();
  byId("x-status").textContent = message;
  scrollTo(0, 0);
  if (field === null || matchMedia("(pointer: coarse)").matches) title.focus({ preventScroll: true });
  else field.select();
}

/** Everything but the sample itself, for the scores as they are. */
function refresh() {
  const { points } = scores;
  byId("x-rater").textContent = scores.rater;
  byId("x-progress").value = points.size;
  byId("x-count").textContent = `${counted(points.size)} of ${counted(samples.length)}`;
  byId("x-first").disabled = scores.firstWithout() < 0;
  byId("x-export").disabled = points.size === 0;
  byId("x-back").disabled = current === 0;
  byId("x-next").disabled = current === samples.length - 1;
  byId("x-skip").textContent = points.has(current) ? "Remove score" : "Skip";
  for (const button of pointButtons) button.setAttribute("aria-pressed", Number(button.dataset.points) === points.get(current));
  byId("x-unratable").setAttribute("aria-pressed", points.get(current) === UNRATABLE);
  if (field !== null) field.value = scores.isOnScale(points.get(current)) ? points.get(current) : "";
  byId("x-gaps").hidden = true;
  marks.forEach((mark, sample) => {
    const score = !points.has(sample) ? "no score" : points.get(sample) === UNRATABLE ? UNRATABLE : `score ${points.get(sample)}`;
    mark.title = `Sample ${sample + 1}, ${score}`;
    mark.setAttribute("aria-label", mark.title);
    mark.setAttribute("aria-current", sample === current);
    mark.classList.toggle("scored", points.has(sample));
  });
}

// What the rater does.

const move = (step) => show(current + step);
const goToFirst = () => scores.firstWithout() >= 0 && show(scores.firstWithout());

function score(points) {
  scores.set(current, points);
  const message = `Sample ${current + 1}: ${points}.`;
  if (current + 1 < samples.length) return show(current + 1, message);
  const left = samples.length - scores.points.size;
  const next = left === 0 ? "All samples are scored: export them." : `The last one; ${withNoun(left, "sample")} without a score.`;
  return show(current, `${message} ${next}`);
}

function scoreField() {
  const text = field.value.trim().replace(",", ".");
  const points = text === "" ? NaN : Number(text);
  if (scores.isOnScale(points)) return score(points);
  const kind = page.whole ? "A whole number" : "A number";
  byId("x-status").textContent = `${kind} from 0 to ${page.full_marks}, please.`;
  return field.select();
}

function remove() {
  if (!scores.points.has(current)) return;
  scores.set(current, null);
  refresh();
  byId("x-status").textContent = `Sample ${current + 1}: score removed.`;
}

function exportScores() {
  if (scores.points.size === 0) return;
  const href = URL.createObjectURL(new Blob([scores.csv], { type: "text/csv" }));
  element("a", { href, download: scores.fileName }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
  scores.exported();
  byId("x-status").textContent = `Exported ${withNoun(scores.points.size, "score")} to ${scores.fileName}.`;
  byId("x-gaps").hidden = scores.gaps === 0;
  byId("x-gaps").textContent = `You skipped ${withNoun(scores.gaps, "sample")} before the last one that you scored. Score them too: with gaps, the scores are no random sample.`;
}

/** Ask in a dialog; `onAnswer` is called when its form is submitted. */
function dialog(name, onAnswer = () => {}) {
  const node = byId(name);
  node.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    node.close();
    onAnswer();
  });
  return node;
}

const who = dialog("x-who", () => {
  const name = byId("x-name").value.normalize("NFC").trim().replace(/\s+/g, " ");
  if (name === "") return;
  scores.load(name);
  for (const id of ["x-tools", "x-overview", "x-sample", "x-bar"]) byId(id).hidden = false;
  show(Math.max(scores.firstWithout(), 0));
});
who.addEventListener("close", () => scores.rater === "" && who.showModal());
const about = dialog("x-about");
dialog("x-zoom");

function askName() {
  byId("x-name").value = scores.rater || scores.lastRater;
  who.showModal();
  byId("x-name").select();
}

const CLICKS = {
  "x-change": askName,
  "x-first": goToFirst,
  "x-export": exportScores,
  "x-help": () => about.showModal(),
  "x-back": () => move(-1),
  "x-next": () => move(1),
  "x-unratable": () => score(UNRATABLE),
  "x-skip": () => (scores.points.has(current) ? remove() : move(1)),
};
const KEYS = {
  ...{ ArrowLeft: CLICKS["x-back"], k: CLICKS["x-back"], ArrowRight: CLICKS["x-next"], j: CLICKS["x-next"] },
  ...{ s: CLICKS["x-next"], u: CLICKS["x-unratable"], Delete: remove, f: goToFirst, "?": CLICKS["x-help"] },
};

for (const [id, action] of Object.entries(CLICKS)) byId(id).addEventListener("click", action);
for (const button of pointButtons) button.addEventListener("click", () => score(Number(button.dataset.points)));
byId("x-score").addEventListener("submit", (event) => {
  event.preventDefault();
  if (field !== null) scoreField();
});

addEventListener("keydown", (event) => {
  const { key, repeat, ctrlKey, metaKey, altKey } = event;
  if (ctrlKey || metaKey || altKey || !byId("x-keys").checked) return;
  if (scores.rater === "" || document.querySelector("dialog[open]")) return;
  const isTyping = document.activeElement === field; // where arrows and Delete edit the number
  if (isTyping && key.length > 1) return;
  if (field === null && /^\d$/.test(key)) {
    if (!repeat && Number(key) <= page.full_marks) score(Number(key));
  } else if (Object.hasOwn(KEYS, key)) {
    event.preventDefault();
    KEYS[key]();
  }
});
addEventListener("storage", (event) => {
  if (!scores.isOurs(event)) return; // of this rater, in another tab
  scores.load(scores.rater);
  refresh();
});
addEventListener("beforeunload", (event) => scores.unexported && event.preventDefault());

byId("x-overview").open = matchMedia("(min-width: 60rem)").matches;
byId("x-overview").querySelector("ol").append(...marks.map((mark) => element("li", {}, mark)));
askName();
