// What is left: of each token at each layer, how much is its own and how much came from the others.

import { addsUp, called, lacking, map, mean, mixing, sinceInput, title } from "../core/data.js";
import { h, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { drawing, grid } from "../core/grid.js";
import { draw } from "./profile.js";
import { limit, percent, scale } from "../core/scale.js";
import { chosen } from "../core/state.js";

export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, { name: "what-is-left" });
  const options = quantities(data);
  const key = chosen(state.show, options);
  select(choices, "show", "Show", options, key, (value) => state.set({ show: value }));
  const values = quantity(data, key),
    width = data.tokens.length,
    depth = data.layers.length;
  const by = data.layers.map((_, layer) => mean(values.subarray(layer * width, (layer + 1) * width)));
  const lines = profiles(data, palette),
    means = () => ({
      header: ["show", "layer", "mean"],
      rows: lines.flatMap((line) => data.layers.map((layer, at) => [line.key, layer, line.by[at]])),
    });
  say(
    lacking(data, key, state.layer) || finding(data, key, values, by, state),
    `${meaning(data, key)} Mean over all ${width} tokens.`,
    { name: "means", table: means },
  );

  const end = limit(values);
  const spec = {
    name: "Layers by tokens",
    corner: "layer",
    labels: "bottom",
    wide: 72,
    tall: height(depth),
    rows: data.layers.map((layer) => ({ text: String(layer) })).reverse(),
    columns: data.tokens.map((token) => ({ text: token.shown, special: token.special })),
    value: (row, column) => values[(depth - 1 - row) * width + column],
    scale: scale(palette, end, false),
    beyond: values.some((value) => value > end),
    format: percent,
    brief: (value) => (value * 100).toFixed(0),
    describe: (row, column) =>
      `${called(data, column)} (${column}), layer ${data.layers[depth - 1 - row]}\n${percent(values[(depth - 1 - row) * width + column])} ${unit(data, key)}`,
    side: { title: "mean", text: (row) => percent(by[depth - 1 - row]) },
    selected: { row: depth - 1 - state.layer, column: state.token },
    select: ({ row, column }) => state.set({ layer: depth - 1 - row, token: column, source: column }),
  };
  const parts = once(body, () => {
    const main = h("div", { class: "main" }),
      aside = h("div", { class: "aside" });
    body.append(main, aside);
    return { main, aside };
  });
  parts.aside.hidden = lines.length < 2;
  const profile = () =>
    draw({ lines, layers: data.layers, tall: spec.tall, chosen: state.layer, emphasis: key }, palette);
  if (lines.length > 1) parts.aside.replaceChildren(profile()); // first: the grid takes the room that is left
  grid(parts.main, spec, palette);
  held.palette = palette;
  held.pictures = () => [drawing(parts.main, spec, palette), ...(lines.length > 1 ? [profile()] : [])];
  held.table = () => ({
    header: ["show", "layer", "place", "token", "value"],
    rows: data.layers.flatMap((layer, at) =>
      data.tokens.map((token, place) => [key, layer, place, token.text, values[at * width + place]]),
    ),
  });
}

export function height(depth) {
  return Math.min(Math.max(Math.floor(340 / depth), 12), 30);
}

// What can be shown: [key, name].
export function quantities(data) {
  const own = data.maps
    .filter((name) => name === "contribution" || (name.startsWith("rollout_") && addsUp(data, name)))
    .map((name) => [name, `own share: ${title(data, name)}`]);
  const mixed = data.variables.mixing
    ? data.analyses.map((analysis) => [`mixing ${analysis}`, `from others: ${title(data, analysis)}`])
    : [];
  const all = [...own, ...mixed];
  return all.length ? all : [["attention", "attention paid to others"]];
}

// Values layer by token.
export function quantity(data, key) {
  if (key.startsWith("mixing ")) return mixing(data, key.slice(7));
  const width = data.tokens.length,
    values = new Float32Array(data.layers.length * width);
  for (let layer = 0; layer < data.layers.length; layer++) {
    const whole = map(data, key, layer);
    for (let token = 0; token < width; token++) {
      const own = whole[token * width + token];
      values[layer * width + token] = key === "attention" ? 1 - own : own;
    }
  }
  return values;
}

function finding(data, key, values, by, { layer, token }) {
  const name = data.layers[layer],
    share = percent(values[layer * data.tokens.length + token]),
    average = percent(by[layer]);
  const shown = `“${called(data, token)}”`;
  if (sinceInput(data, key))
    return `After layer ${name}, ${shown} is still ${share} itself; the average token ${average}`;
  const of = key === "attention" ? "pays others" : "takes";
  const what = key === "attention" ? "of its attention" : "of its new vector from others";
  return `In layer ${name}, ${shown} ${of} ${share} ${what}; the average token ${average}`;
}

export function meaning(data, key) {
  if (key.startsWith("mixing "))
    return `Share of each token’s new vector that came from other tokens, by ${title(data, key.slice(7))}.`;
  if (key === "attention")
    return "Attention paid to other tokens: one minus the token’s weight on itself, mean of all heads.";
  return `How much of each hidden token still comes from the same token at the input, by ${title(data, key)}.`;
}

function unit(data, key) {
  return sinceInput(data, key) ? "itself" : key === "attention" ? "of attention goes to others" : "from other tokens";
}

function profiles(data, palette) {
  return quantities(data).map(([key]) => {
    const values = quantity(data, key),
      width = data.tokens.length;
    const name = key.replace("mixing ", "");
    const by = data.layers.map((_, layer) => mean(values.subarray(layer * width, (layer + 1) * width)));
    const own = sinceInput(data, key);
    return {
      key,
      label: title(data, name),
      group: own ? "own share" : "from other tokens",
      by,
      color: palette.measures[name] ?? palette.muted,
      dashed: own,
    };
  });
}
