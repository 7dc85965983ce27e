// Putting the page together: which task is shown, links to samples, theme, print.

const runs = inert("x-runs");
const sections = [...document.querySelectorAll("section.task")];
const links = [...document.querySelectorAll("nav.bar a")];
const shownTasks = new Map(); // section -> its browser, once it was shown
const plots = new Plots(runs);

const numberOf = (section) => Number(section.dataset.task);

/** Show one task, made ready the first time; or none, but the overview, where there are several. */
function showTask(section) {
  for (const each of sections) each.hidden = each !== section;
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

/** What stands behind the # of the address: `task`, `task:part` or `task/id`. */
async function follow() {
  const [, name, part, id] = /^#([^/:]*)(:[^/]*)?(?:\/(.*))?$/s.exec(location.hash) ?? ["", "", "", ""];
  const section = sections.find((each) => each.id === name);
  byId("overview").hidden = sections.length > 1 && section !== undefined;
  showTask(section ?? (sections.length === 1 ? sections[0] : undefined));
  if (section === undefined) return;
  const missing = id ? !(await shownTasks.get(section).open(plain(id))) : false;
  if (missing) shownTasks.get(section).count.textContent = `There is no sample ${plain(id)} here.`;
  if (!id) (part ? byId(name + part) : section)?.scrollIntoView();
}

function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The theme is the system's until the button is pressed.

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

function themed() {
  byId("x-theme").textContent = isDark() ? "Light theme" : "Dark theme";
  plots.redraw();
}

byId("x-theme").hidden = false;
byId("x-theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  themed();
});
dark.addEventListener("change", themed);

// On paper nothing can be opened: what holds numbers is opened before.

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details[data-print]:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});

addEventListener("hashchange", follow);
themed();
follow();
