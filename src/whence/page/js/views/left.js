// @ts-check
// What is left: of each token at each layer, how much is its own and how much came from the others.

import { byLayer, called, estimated, lacking, said, values } from "../core/data.js";
import { h, offered, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { drawing, grid } from "../core/grid.js";
import { layersByTokens } from "./layers.js";
import { draw } from "./profile.js";
import { number, percent } from "../core/scale.js";
import { held as pinned } from "../core/state.js";

/** @typedef {import("../core/data.js").Data} Data */

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, data, "what-is-left");
  const all = data.fields.filter(({ kind }) => kind !== "sources"),
    options = all.map(({ key, label }) => [key, label]),
    { key: now, better } = pinned(state, "show", options),
    field = all.find(({ key }) => key === now);
  select(choices, "show", "Show", options, field.key, (value) => state.set({ show: value }));
  offered(choices, better, (value) => state.set({ show: value }));
  const numbers = values(data, field, state.token),
    means = byLayer(data, numbers),
    count = `${data.rows ? `${data.rows.length} of` : "all"} ${data.tokens.length}`,
    doubt = field.read === "values" ? "" : estimated(data, field.variable),
    lines = profiles(data, all),
    format = field.percent ? percent : number;
  const also = () => ({
    header: ["show", "layer", "mean"],
    rows: lines.flatMap((line) => data.layers.map((layer, at) => [line.key, layer, line.by[at]])),
  });
  say(
    lacking(data, field.variable, state.layer, state.token) ||
      said(field.finding, {
        layer: data.layers[state.layer],
        token: `“${called(data, state.token)}”`,
        value: format(numbers[state.layer * data.tokens.length + state.token]),
        mean: format(means[state.layer]),
      }),
    `${field.meaning} Mean over ${count} tokens. ${doubt}`.trim(),
    { name: "means", table: also },
  );

  const spec = (colors) => ({
    ...layersByTokens(data, colors, {
      ...{ numbers, estimated: doubt !== "", percent: field.percent, name: "Layers by tokens", at: state },
      tell: ({ layer }, value) => `, layer ${data.layers[layer]}\n${value} ${field.unit}`,
      pick: ({ layer, token }) => state.set({ layer, token, source: token }),
    }),
    side: { title: "mean", text: (row) => format(means[data.layers.length - 1 - row]) },
  });
  const parts = once(body, () => {
    const main = h("div", { class: "main" }),
      aside = h("div", { class: "aside" });
    body.append(main, aside);
    return { main, aside };
  });
  const shares = lines.filter((line) => line.percent),
    profile = (colors) => (shares.length > 1 ? [draw(data, shares, state.layer, field.key, colors)] : []);
  parts.aside.hidden = shares.length < 2;
  parts.aside.replaceChildren(...profile(palette)); // first: the grid takes the room that is left
  grid(parts.main, spec(palette), palette);
  held.pictures = (colors) => [drawing(parts.main, spec(colors), colors), ...profile(colors)];
  held.table = () => ({
    header: ["show", "layer", "place", "token", "value"],
    rows: data.layers.flatMap((layer, at) =>
      data.tokens.map(({ text }, place) => [field.key, layer, place, text, numbers[at * data.tokens.length + place]]),
    ),
  });
}

/**
 * One line for each: its means by layer.
 * @param {Data} data
 * @param {import("../core/data.js").Field[]} all
 */
function profiles(data, all) {
  return all.map((field) => ({
    ...{ key: field.key, label: field.title, group: field.group, percent: field.percent, dashed: field.since_input },
    ...{ by: byLayer(data, values(data, field, 0)), style: field.style },
  }));
}
