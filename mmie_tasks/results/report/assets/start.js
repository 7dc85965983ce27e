// Page setup: the shown task, links to samples, theme, print.

const runs = inert("x-runs");
const sections = [...document.querySelectorAll("section.task")];
const links = [...document.querySelectorAll("nav.bar a")];
const shownTasks = new Map(); // section -> its browser, once shown
const plots = new Plots(runs);

const numberOf = (section) => Number(section.dataset.task);

/** Show one task, set up the first time; or the overview, if there are several tasks. */
function showTask(section) {
  for (const candidate of sections) candidate.hidden = candidate !== section;
  const href = section ? `#${section.id}` : "#overview";
  for (const link of links) {
    if (link.getAttribute("href") === href) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (section && !shownTasks.has(section)) {
    const number = numberOf(section);
    const task = inert(`x-task-${number}`);
    plots.watch(section, task);
    shownTasks.set(section, new Browser(section.querySelector(".browser"), number, task, runs));
  }
}

/** Follow the fragment of the address: `task`, `task:part` or `task/id`. */
async function follow() {
  const [, name, part, id] = /^#([^/:]*)(:[^/]*)?(?:\/(.*))?$/s.exec(location.hash) ?? ["", "", "", ""];
  const section = sections.find((candidate) => candidate.id === name);
  byId("overview").hidden = sections.length > 1 && section !== undefined;
  showTask(section ?? (sections.length === 1 ? sections[0] : undefined));
  if (section === undefined) return;
  const missing = id ? !(await shownTasks.get(section).open(decoded(id))) : false;
  if (missing) shownTasks.get(section).count.textContent = `No sample has the id ${decoded(id)}.`;
  if (!id) (part ? byId(name + part) : section)?.scrollIntoView();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The system's theme, until the button is pressed.

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

function applyTheme() {
  byId("x-theme").textContent = isDark() ? "Light theme" : "Dark theme";
  plots.redraw();
}

byId("x-theme").hidden = false;
byId("x-theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  applyTheme();
});
dark.addEventListener("change", applyTheme);

// For print: open the tables, which cannot be opened on paper.

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details[data-print]:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});

addEventListener("hashchange", follow);
applyTheme();
follow();
