// @ts-check
// The page of an explained prediction: choose a token of the answer, a layer and a measure; see what gave how much.

import { open } from "./core/data.js";
import { h, kept, once, themed } from "./core/dom.js";
import { choice, layerName, storyOf } from "./core/explained.js";
import { create } from "./core/state.js";
import * as depths from "./views/depths.js";
import * as hero from "./views/hero.js";
import * as notes from "./views/notes.js";
import * as reasons from "./views/reasons.js";
import * as shaded from "./views/shaded.js";

/**
 * @typedef {import("./core/explained.js").Explained} Explained
 * @typedef {import("./core/explained.js").Chosen} Chosen
 * @typedef {import("./core/state.js").State} State
 * @typedef {import("./core/scale.js").Palette} Palette
 */

/** Inside a notebook. */
export async function render({ model, el }) {
  const root = el.appendChild(h("div", { class: "whence-widget", role: "group", "aria-label": "Why" }));
  const notebook = () => document.body.dataset.jpThemeLight; // Jupyter has a theme of its own
  return mount(root, root, await explained(model.get("payload")), notebook, true);
}

export async function boot() {
  const root = document.body.appendChild(h("main", { class: "why" }));
  const payload = await explained(JSON.parse(document.getElementById("data").textContent));
  mount(root, document.documentElement, payload, () => undefined, false);
}

/** @returns {Promise<Explained>} */
async function explained(payload) {
  const data = await open(payload);
  return /** @type {any} */ (data);
}

/** @param {HTMLElement} root @param {HTMLElement} themed @param {Explained} data */
function mount(root, themed, data, notebook, alone) {
  const dark = matchMedia("(prefers-color-scheme: dark)"),
    paper = matchMedia("print");
  let asked = 0;
  const redraw = () => {
    asked = 0;
    const around = notebook();
    const wanted = state.theme || ((around ? around === "false" : dark.matches) ? "dark" : "light");
    state.shade = paper.matches ? "light" : wanted;
    themed.dataset.theme = state.shade;
    draw(root, data, state, data.palette[state.shade]);
  };
  const soon = () => {
    asked ||= requestAnimationFrame(redraw);
  };
  const state = create(/** @type {any} */ (data), soon, alone);
  const sized = new ResizeObserver(soon);
  for (const query of [dark, paper]) query.addEventListener("change", soon);
  sized.observe(root);
  redraw();
  return () => {
    sized.disconnect();
    for (const query of [dark, paper]) query.removeEventListener("change", soon);
  };
}

/** @param {HTMLElement} root @param {Explained} data @param {State} state @param {Palette} palette */
function draw(root, data, state, palette) {
  const parts = once(root, () => build(root, data)),
    chosen = choice(data, state);
  const told = storyOf(data, chosen.at, state.token),
    story = data.scene ? { ...told, words: [], parts: [], scene: null, ghost: "" } : told; // the picture stands below
  hero.render(parts.header, story, palette, (place) => {
    const asked = data.predicted.find((one) => one.place === place || (one.place < 0 && one.position === place));
    state.set({ token: asked ? asked.position : place });
  });
  controls(parts, data, state, chosen);
  shaded.render(parts.text, data, chosen, palette, (at) => state.set({ token: data.predicted[at].position }));
  const go = (layer) => state.set({ layer });
  if (data.variables[chosen.shade.name].shape[1] > 1) depths.render(parts.grid, data, chosen, palette, go);
  reasons.render(parts.below, data, go, chosen, palette);
}

/** @param {HTMLElement} root @param {Explained} data */
function build(root, data) {
  const { attrs, tokens, layers, predicted } = data;
  const counts = `${tokens.length} tokens, ${layers.length - 1} layers`,
    model = [attrs.model, attrs.revision && `@ ${attrs.revision.slice(0, 12)}`].filter(Boolean).join(" ");
  const several = predicted.length > 1 ? `, ${predicted.length} predictions` : "",
    about = h(
      "p",
      { class: "eyebrow" },
      h("strong", { class: "wordmark" }, "whence"),
      h("bdi", {}, model),
      ` · ${counts}${several}`,
    ),
    header = h("header", { class: "header hero" }),
    choices = h("div", { class: "choices" }),
    theme = h("button", { type: "button", class: "theme" }),
    bar = h("nav", { class: "bar", "aria-label": "Selection" }, h("div", { class: "selection" }, choices, theme)),
    text = h("section", {}),
    grid = h("section", { class: "depths" }),
    below = h("section", { class: "panel" }),
    foot = h("footer", { class: "notes" });
  root.append(about, header, bar, text, grid, below, foot);
  notes.render(foot, /** @type {any} */ (data));
  return { header, choices, theme, text, grid, below };
}

/**
 * What is shaded, at which layer, in light or dark.
 * @param {ReturnType<typeof build>} parts @param {Explained} data @param {State} state @param {Chosen} chosen
 */
function controls({ choices, theme }, data, state, { shade, layer }) {
  const group = kept(choices, "shade", () => h("div", { class: "toggle", role: "group", "aria-label": "Shade by" }));
  group.hidden = data.shades.length < 2;
  for (const { name, title } of data.shades) {
    const button = kept(group, name, () => h("button", { type: "button" }, title));
    button.setAttribute("aria-pressed", String(name === shade.name));
    button.onclick = () => state.set({ show: name });
  }
  const { input, told } = kept(choices, "layer", () => {
    const range = h("input", { type: "range", min: "0", max: String(data.layers.length - 1), step: "1" }),
      output = h("output", {});
    return {
      input: range,
      told: output,
      whole: h("label", { class: "choice" }, h("span", {}, "Layer"), range, output),
    };
  });
  input.value = String(layer);
  input.disabled = data.variables[shade.name].shape[1] < 2;
  input.setAttribute("aria-valuetext", layerName(data, layer));
  told.textContent = data.layer_names?.[layer] ?? String(data.layers[layer]);
  input.oninput = () => state.set({ layer: Number(input.value) });
  themed(theme, state.shade, (other) => state.set({ theme: other }));
}
