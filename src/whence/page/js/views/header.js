// @ts-check
// The top of the page: what was found, on which model, and the sentence, shaded by where the selected token came from.

import { called, cut, part, said, title, values, wording } from "../core/data.js";
import { h, hush, once, tell } from "../core/dom.js";
import { inkOn, limit, scale } from "../core/scale.js";
import { roving } from "../core/walk.js";
import { sources } from "./whence.js";

/** @typedef {import("../core/data.js").Data} Data */

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const parts = once(container, () => build(container, data));
  parts.finding.textContent = data.finding;
  parts.about.textContent = about(data);
  const { token, layer } = state,
    field = sources(data, state),
    name = field?.variable,
    all = field ? values(data, field, token) : new Float32Array(), // one scale with the picture of all layers
    shade = scale(palette, limit(all), name ? data.variables[name].signed : false);
  const choose = (place) => state.set({ token: place, source: place });
  roving(parts.row, parts.chips, token, choose);
  for (const [place, chip] of parts.chips.entries()) {
    const value = all[layer * data.tokens.length + place],
      there = Number.isFinite(value);
    chip.style.background = there ? shade.color(value) : "";
    chip.style.color = there ? inkOn(shade.rgb(value)) : "";
    chip.setAttribute("aria-pressed", String(place === token));
    chip.onclick = () => choose(place);
    chip.onpointermove = (event) =>
      tell(event, `${called(data, place)} (${place})${there ? `: ${part(data, name)(value)}` : ""}`);
  }
  parts.key.textContent = name ? key(data, name, state) : "";
  parts.hint.hidden = !name;
}

function key(data, name, { token, layer }) {
  const shading = said(wording(data, name).shade, { token: `“${called(data, token)}”` }),
    where = `layer ${data.layers[layer]} (${title(data, name)})`;
  return `Shade: ${shading} ${where}.`;
}

/** @param {HTMLElement} container @param {Data} data */
function build(container, data) {
  const chips = data.tokens.map(({ shown, special }, place) => {
    const look = { type: "button", class: `token${special ? " special" : ""}`, dir: "auto", onpointerleave: hush };
    return h("button", { ...look, "aria-label": `token ${place}, ${shown}` }, cut(shown, 60));
  });
  const name = { role: "toolbar", "aria-label": "The sentence, token by token" },
    row = h("div", { class: "sentence", ...name }, ...chips);
  const [finding, told, below] = [h("h1", {}), h("p", { class: "subtitle" }), h("span", {})],
    hint = h("span", { class: "hint" }, " Choose another token by clicking or with the arrow keys.");
  container.append(finding, told, row, h("p", { class: "subtitle" }, below, hint));
  return { chips, row, key: below, hint, finding, about: told };
}

/** @param {Data} data */
function about({ attrs, tokens, layers, heads, causal }) {
  const special = tokens.filter((token) => token.special).length,
    count = attrs.cut_from ? `the first ${tokens.length} of ${attrs.cut_from}` : tokens.length;
  const counts = [
    `${count} tokens${special ? ` (${special} special)` : ""}`,
    `${layers.length} layers`,
    heads ? `${heads} heads` : "",
    causal ? "reads left to right" : "",
  ];
  const model = attrs.model && `${attrs.model}${attrs.revision ? ` @ ${attrs.revision.slice(0, 12)}` : ""}`;
  return [model, counts.filter(Boolean).join(", ")].filter(Boolean).join(" · ");
}
