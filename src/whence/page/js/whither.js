// @ts-check
// The page of a lens: what every state is disposed to say, and one hidden token from both sides where it was traced.

import { h, themed } from "./core/dom.js";
import * as disposed from "./views/disposed.js";
import * as sides from "./views/sides.js";

/**
 * @typedef {[string, number, number | null]} Best  a token, its probability, the standard error of that
 * @typedef {{ place: number, answer_probability: number, best: Best[] }} Cell
 * @typedef {{ position: number, token: string, answer: string, probability: number,
 *   layers: ({ layer: number } & Record<string, Cell>)[] }} Read  a token of the text, by layer and lens
 * @typedef {{ token: number, sources: string[], came: Record<string, (number | null)[][]>,
 *   meaning: Record<string, string>, given: null | { predicted: number[], tokens: string[], probability: number[],
 *   share: number[][], share_of_all: number[][] } }} Trace
 * @typedef {{ finding: string, attrs: Record<string, string>, lenses: { name: string, title: string }[],
 *   layers: number[], agreement: Record<string, number[]>, tokens: Read[], opened: number, trace: Trace | null,
 *   palette: Record<string, import("./core/scale.js").Palette> }} Lensed
 * @typedef {{ lens: string, token: number, layer: number, theme: string }} Selected  `layer` by place
 */

export function boot() {
  const root = document.body.appendChild(h("main", { class: "why" }));
  mount(root, JSON.parse(document.getElementById("data").textContent));
}

/** @param {HTMLElement} root @param {Lensed} data */
function mount(root, data) {
  const dark = matchMedia("(prefers-color-scheme: dark)"),
    paper = matchMedia("print"),
    parts = build(root, data);
  /** @type {Selected} */
  let selected = { ...{ lens: data.lenses[0].name, token: data.opened }, ...{ layer: middle(data), theme: "" } };
  const draw = () => {
    const theme = paper.matches ? "light" : selected.theme || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    controls(parts, data, selected, theme, set);
    disposed.render(parts.grid, data, selected, data.palette[theme], set);
    if (data.trace) sides.render(parts.sides, data, data.trace, selected, data.palette[theme]);
  };
  /** @param {Partial<Selected>} change */
  const set = (change) => {
    selected = { ...selected, ...change };
    draw();
  };
  for (const query of [dark, paper]) query.addEventListener("change", draw);
  draw();
}

/** The layer that opens: past the middle, where lenses differ. @param {Lensed} data */
function middle({ layers }) {
  return Math.floor((2 * (layers.length - 1)) / 3);
}

/** @param {HTMLElement} root @param {Lensed} data */
function build(root, data) {
  const model = [data.attrs.model, data.attrs.revision && `@ ${data.attrs.revision.slice(0, 12)}`].filter(Boolean),
    subtitle = h("p", { class: "subtitle" }, h("bdi", {}, model.join(" ")), ` · ${data.attrs.text}`),
    header = h("header", { class: "header" }, h("h1", {}, data.finding), subtitle),
    choices = h("div", { class: "toggle", role: "group", "aria-label": "Lens" }),
    theme = h("button", { type: "button", class: "theme" }),
    bar = h("nav", { class: "bar", "aria-label": "Selection" }, h("div", { class: "selection" }, choices, theme)),
    grid = h("section", { class: "panel" }),
    beside = h("section", {});
  beside.hidden = !data.trace;
  root.append(header, bar, beside, grid);
  return { choices, theme, grid, sides: beside };
}

/**
 * @param {ReturnType<typeof build>} parts @param {Lensed} data @param {Selected} selected @param {string} shown
 * @param {(change: Partial<Selected>) => void} set
 */
function controls({ choices, theme }, data, selected, shown, set) {
  choices.replaceChildren(
    ...data.lenses.map(({ name, title }) => {
      const pressed = { type: "button", "aria-pressed": String(name === selected.lens) };
      return h("button", { ...pressed, onclick: () => set({ lens: name }) }, title);
    }),
  );
  themed(theme, shown, (other) => set({ theme: other }));
}
