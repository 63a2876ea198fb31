// @ts-check
// What is selected, always in reach: layer, token, head, light or dark.

import { cut } from "../core/data.js";
import { h, once, select, themed } from "../core/dom.js";

/**
 * `perHead` says whether what is drawn below depends on the head, `alone` whether on none of all that.
 * @param {HTMLElement} container @param {import("../core/data.js").Data} data
 * @param {import("../core/state.js").State} state @param {boolean} perHead @param {boolean} [alone]
 */
export function render(container, data, state, perHead, alone = false) {
  const { choices, theme } = once(container, () => {
    const parts = { choices: h("div", { class: "choices" }), theme: h("button", { type: "button", class: "theme" }) };
    container.append(parts.choices, parts.theme);
    return parts;
  });
  choices.hidden = alone;
  /** @type {(list: any[], name?: (one: any, place: number) => string) => string[][]} */
  const places = (list, name = String) => list.map((one, place) => [String(place), name(one, place)]);
  const tokens = places(data.tokens, ({ shown }, place) => `${place}  ${cut(shown, 40)}`),
    heads = places(Array.from({ length: data.heads }, (_, head) => head));
  select(choices, "token", "Token", tokens, state.token, (value) =>
    state.set({ token: Number(value), source: Number(value) }),
  );
  select(choices, "layer", "Layer", places(data.layers).reverse(), state.layer, (value) =>
    state.set({ layer: Number(value) }),
  );
  const choose = (value) => state.set({ head: value === "mean" ? value : Number(value) });
  if (data.head_maps.length)
    select(choices, "head", "Head", [["mean", "mean of all"], ...heads], state.head, choose, !perHead);
  themed(theme, state.shade, (other) => state.set({ theme: other }));
}
