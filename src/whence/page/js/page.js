// @ts-check
// The page: opens the data, keeps one selection, lets the chosen view draw itself.

import * as bar from "./views/bar.js";
import * as compare from "./views/compare.js";
import { open } from "./core/data.js";
import { h, hide } from "./core/dom.js";
import * as flow from "./views/flow.js";
import * as header from "./views/header.js";
import * as heads from "./views/heads.js";
import * as left from "./views/left.js";
import * as maps from "./views/maps.js";
import * as notes from "./views/notes.js";
import * as perturb from "./views/perturb.js";
import * as prediction from "./views/prediction.js";
import { chosen, create } from "./core/state.js";
import * as tabs from "./views/tabs.js";
import * as whence from "./views/whence.js";
import * as why from "./views/why.js";

/**
 * @typedef {import("./core/data.js").Data} Data
 * @typedef {import("./core/state.js").State} State
 * @typedef {import("./core/scale.js").Palette} Palette
 * @typedef {(container: HTMLElement, data: Data, state: State, palette: Palette) => void} Render
 * @typedef {{ render: Render, perHead?(data: Data, state: State): boolean }} View
 */

/** Named as in the table of whence.page.payload, which knows what each needs. @type {Record<string, View>} */
const PANELS = { why, left, whence, flow, maps, heads, prediction, perturb, compare };
/**
 * In the order of their tabs, what each is called and the question it answers; those of two texts and of the explorer
 * too, which bring these views along.
 * @type {Record<string, [string, string]>}
 */
const NAMES = {
  why: ["Why this token", "What is the prediction made of, and where in depth does it fall?"],
  alignment: ["Alignment", "Which words of the source does a word of the answer come from?"],
  left: ["What is left", "How much of each token is still its own, or came from others?"],
  whence: ["Where from", "Where did one token come from, layer by layer?"],
  flow: ["Flow", "What does a token go back to, and by which way?"],
  maps: ["Who from whom", "Who takes how much from whom?"],
  heads: ["Heads", "What do the heads do?"],
  prediction: ["Step by step", "What does each layer, and each step of the LM head, predict?"],
  bridge: ["Both sides", "Where did one hidden token come from, and what is it disposed to say?"],
  perturb: ["What if", "What does a change of the sentence change?"],
  compare: ["Compare", "Do two measures, or two models, agree?"],
};

/**
 * Draws a sentence into an element. What comes back takes the next sentence, or the same with more measures: `show`.
 * @param {HTMLElement} root
 * @param {Data} data
 * @param {{ live?: any, views?: Record<string, View> }} [more] `views` beside those of every page
 */
export function mount(root, data, { live = null, views = {} } = {}) {
  const dark = matchMedia("(prefers-color-scheme: dark)"),
    paper = matchMedia("print");
  let asked = 0,
    frame = null,
    now = data;
  const render = () => {
    asked = 0;
    state.shade = paper.matches ? "light" : state.theme || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = state.shade;
    draw(frame, now, state, { ...PANELS, ...views });
  };
  const soon = () => {
    asked ||= requestAnimationFrame(render);
  };
  const state = create(data, soon);
  state.live = live;
  const show = (next) => {
    if (!frame || sentence(next) !== sentence(now)) frame = build(root);
    now = next;
    state.save(); // what was chosen a moment ago
    state.follow(next);
    render();
  };
  dark.onchange = paper.onchange = render;
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth !== width) {
      width = root.clientWidth;
      soon();
    }
  }).observe(root);
  show(data);
  return { show, state, render: soon };
}

/** @param {Record<string, View>} [views] beside those of every page */
export async function boot(views = {}) {
  const brand = h("div", { class: "brand" }, h("strong", { class: "wordmark" }, "whence")),
    root = document.body.appendChild(h("main", {}, brand)).appendChild(h("div", {}));
  mount(root, await open(JSON.parse(document.getElementById("data").textContent)), { views });
}

function sentence(data) {
  return JSON.stringify([data.attrs.model, data.tokens, data.layers]);
}

function build(root) {
  const frame = {
    header: h("header", { class: "header" }),
    tabs: h("nav", { class: "bar", "aria-label": "Views and selection" }),
    panels: new Map(),
    notes: h("footer", { class: "notes" }),
    body: h("div", {}),
    drawn: null,
  };
  frame.list = frame.tabs.appendChild(h("div", { class: "tabs", role: "tablist", "aria-label": "Views" }));
  frame.choices = frame.tabs.appendChild(h("div", { class: "selection" }));
  root.replaceChildren(frame.header, frame.tabs, frame.body, frame.notes);
  return frame;
}

/** @param {Record<string, View>} panels  those that there are; `far` draws maps of texts too long for the others */
function draw(frame, data, state, panels) {
  const palette = data.palette[state.shade];
  const more = {
    why: data.why || state.live?.awaited("hero"),
    bridge: data.lensed || state.live?.awaited("sides"),
    maps: state.live?.long(data),
    perturb: state.live || data.beside?.edited,
    prediction: state.live?.predicts(data.attrs.model),
  };
  const views = Object.keys(NAMES).filter((name) => panels[name] && (data.panels.includes(name) || more[name]));
  /** @type {string[][]} */
  const titles = views.map((name) => [name, ...NAMES[name]]);
  const view = chosen(state.view, titles),
    /** @type {View} */
    panel = view === "maps" && !data.panels.includes("maps") ? panels.far : panels[view];
  header.render(frame.header, data, state, palette);
  tabs.render(frame.list, titles, view, (name) => {
    state.set({ view: name });
    requestAnimationFrame(() => bring(frame.tabs)); // once it is drawn
  });
  bar.render(frame.choices, data, state, panel?.perHead?.(data, state) ?? false, [why, panels.far].includes(panel));
  for (const name of views) if (!frame.panels.has(name)) frame.panels.set(name, section(frame.body, name));
  for (const [name, { whole }] of frame.panels)
    hide(whole, name !== view, frame.list.querySelector("[aria-selected=true]"));
  if (frame.drawn !== data) notes.render(frame.notes, data);
  frame.drawn = data;
  if (view) panel.render(frame.panels.get(view).inner, data, state, palette);
}

/** Brings the views up where little of them would be seen. @param {HTMLElement} tabs */
function bring(tabs) {
  if (tabs.getBoundingClientRect().bottom > innerHeight / 2) tabs.scrollIntoView();
}

function section(root, name) {
  const inner = h("div", {});
  const whole = root.appendChild(
    h("section", { id: name, class: "panel", role: "tabpanel", "aria-labelledby": `tab-${name}` }, inner),
  );
  return { whole, inner };
}
