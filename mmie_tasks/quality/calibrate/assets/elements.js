// Creates elements. Texts become text nodes, never markup.

const byId = (id) => document.getElementById(id);

const inert = (id) => JSON.parse(byId(id).textContent);

/** An element: `attributes` as in HTML; functions become listeners of the event of that name. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

const counted = (number) => number.toLocaleString("en-US");

const withNoun = (number, noun) => `${counted(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Untrusted text of a log; a long one is shortened, with a button that shows all of it. */
function logText(text, limit = 1500) {
  if (text.length <= limit * 1.2) return element("div", { class: "log-text", dir: "auto" }, text);
  const head = element("div", { class: "log-text part", dir: "auto" }, text.slice(0, limit), "…");
  const whole = element("div", { class: "log-text whole", dir: "auto", hidden: true }, text);
  const title = `Show all ${counted(text.length)} characters`;
  const button = element("button", { type: "button", class: "more", "aria-expanded": "false" }, title);
  button.addEventListener("click", () => {
    whole.hidden = !whole.hidden;
    head.hidden = !whole.hidden;
    button.textContent = whole.hidden ? title : "Show less";
    button.setAttribute("aria-expanded", String(!whole.hidden));
  });
  return element("div", {}, head, whole, button);
}

const IMAGE_DATA = /^data:image\/(webp|png|jpeg|gif);base64,[A-Za-z0-9+/=]*$/;

/** Texts and images in their order; `image` is the id of the element with the image's address, and a missing image has a
 * note with the reason. `limit`: see `logText`. */
function segments(pieces, limit) {
  return element("div", { class: "segments" }, ...pieces.map((piece) => segment(piece, limit)));
}

function segment(piece, limit) {
  if ("text" in piece) return logText(piece.text, limit);
  const note = piece.note ? element("span", { class: "log-text", dir: "auto" }, piece.note) : "";
  const name = element("span", { class: "log-text faint", dir: "auto" }, piece.alt);
  const prompt = piece.prompt ? element("figcaption", {}, "drawn to: ", logText(piece.prompt, limit)) : "";
  const address = piece.image === null ? null : byId(piece.image)?.textContent;
  if (!IMAGE_DATA.test(address)) {
    const absent = element("p", { class: "absent" }, note || "image not shown", " ", name);
    return prompt ? element("figure", { class: "picture" }, absent, prompt) : absent;
  }
  const image = element("img", { src: address, alt: piece.alt || "image", loading: "lazy" });
  return element("figure", { class: "picture" }, image, note, prompt);
}
