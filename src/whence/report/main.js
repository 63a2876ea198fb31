// The page: opens the data, keeps one selection, lets every panel draw itself.

import * as bar from "./bar.js";
import { open } from "./data.js";
import { h } from "./dom.js";
import * as header from "./header.js";
import * as heads from "./heads.js";
import * as left from "./left.js";
import * as maps from "./maps.js";
import * as notes from "./notes.js";
import { create } from "./state.js";
import * as whence from "./whence.js";

// Names are those of the table of panels in whence.report, which knows what each needs.
const PANELS = { left, whence, maps, heads };
const NAMES = { left: "What is left", whence: "Whence", maps: "Maps", heads: "Heads" };

// Draws the page of a payload into an element.
export async function mount(root, payload) {
  const data = await open(payload);
  const views = [["header", header], ["bar", bar], ...data.panels.map((name) => [name, PANELS[name]]), ["notes", notes]];
  const drawn = views.map(([name, view]) => [view, section(root, name)]);
  const dark = matchMedia("(prefers-color-scheme: dark)"), paper = matchMedia("print");
  let asked = 0;
  const render = () => {
    asked = 0;
    state.shade = paper.matches ? "light" : state.theme || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = state.shade;
    for (const [view, container] of drawn) view.render(container, data, state, data.palette[state.shade]);
  };
  const soon = () => { asked ||= requestAnimationFrame(render); };
  const state = create(data, soon);
  dark.onchange = paper.onchange = render;
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth !== width) { width = root.clientWidth; soon(); }
  }).observe(root);
  render();
}

export function boot() {
  mount(document.body.appendChild(h("main", {})), JSON.parse(document.getElementById("data").textContent));
}

function section(root, name) {
  const kind = { header: "header", bar: "nav", notes: "footer" }[name] ?? "section";
  const element = h(kind, { id: name, class: kind === "section" ? "panel" : name, "aria-label": NAMES[name] ?? (name === "bar" ? "Selection" : null) });
  root.append(element);
  if (!NAMES[name]) return element;
  element.append(h("p", { class: "eyebrow" }, NAMES[name]));
  return element.appendChild(h("div", {}));
}
