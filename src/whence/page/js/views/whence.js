// Whence: the sources of one token, layer after layer.

import { called, lacking, plane, shares, title, wording } from "../core/data.js";
import { h, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { drawing, grid } from "../core/grid.js";
import { height } from "./left.js";
import { limit, number, percent, scale } from "../core/scale.js";
import { chosen } from "../core/state.js";

export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, { name: "sources" });
  const name = sources(data, state),
    { token } = state;
  select(choices, "map", "By", options(data), name, (value) => state.set({ map: value }));
  const depth = data.layers.length,
    width = data.tokens.length,
    signed = data.variables[name].signed;
  const rows = data.layers.map((_, layer) => shares(data, name, layer, token));
  const all = rows.flatMap((row) => [...row]);
  const end = limit(all),
    format = signed ? number : percent,
    shown = called(data, token);
  say(
    lacking(data, name, state.layer) || finding(data, name, rows[state.layer], state),
    `${data.styles[name]?.meaning ?? ""}${signed ? "" : " Each row is drawn as shares of its sum."}`,
  );

  const spec = {
    name: `Sources of ${shown}, layer by layer`,
    corner: "layer",
    labels: "bottom",
    wide: 72,
    tall: height(depth),
    rows: data.layers.map((layer) => ({ text: String(layer) })).reverse(),
    columns: data.tokens.map((one) => ({ text: one.shown, special: one.special })),
    value: (row, column) => rows[depth - 1 - row][column],
    scale: scale(palette, end, signed),
    beyond: all.some((value) => Math.abs(value) > end),
    format,
    brief: (value) => (signed ? number(value) : (value * 100).toFixed(0)),
    describe: (row, column) =>
      `${called(data, column)} (${column}) → ${shown} (${token}), layer ${data.layers[depth - 1 - row]}\n${format(rows[depth - 1 - row][column])}${error(data, name, depth - 1 - row, token, column)}${column === token ? ", itself" : ""}`,
    selected: { row: depth - 1 - state.layer, column: state.source },
    select: ({ row, column }) => state.set({ layer: depth - 1 - row, source: column }),
    marked: token,
  };
  const main = once(body, () => body.appendChild(h("div", { class: "main" })));
  grid(main, spec, palette);
  held.palette = palette;
  held.pictures = () => [drawing(main, spec, palette)];
  held.table = () => ({
    header: ["map", "layer", "target", "target_token", "source", "source_token", signed ? "value" : "share"],
    rows: data.layers.flatMap((layer, at) =>
      Array.from({ length: width }, (_, source) => [
        name,
        layer,
        token,
        data.tokens[token].text,
        source,
        data.tokens[source].text,
        rows[at][source],
      ]),
    ),
  });
}

// The map that tells where a token came from: the one chosen, or the best there is.
export function sources(data, state) {
  return chosen(state.map, options(data));
}

export function options(data) {
  const maps = data.maps.map((name) => [name, title(data, name)]);
  return data.variables.attention && !data.variables.attn_w
    ? [...maps, ["attention", "attention, mean of heads"]]
    : maps;
}

// What an estimate may be off by.
export function error(data, name, layer, token, source) {
  const found = data.variables[`${name}_se`],
    width = data.tokens.length;
  const value = found ? plane(found, layer)[token * width + source] : 0;
  return value > 0 ? ` ± ${percent(value)}` : "";
}

function finding(data, name, row, state) {
  const main = [...row.keys()]
    .filter((source) => row[source] > 0)
    .sort((one, other) => row[other] - row[one])
    .slice(0, 3);
  const format = data.variables[name].signed ? number : percent;
  const { verb, to } = wording(data, name);
  const parts = main.map(
    (source) => `${format(row[source])} ${to} ${source === state.token ? "itself" : `“${called(data, source)}”`}`,
  );
  const list = parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts.join("") || "nothing";
  const shown = called(data, state.token);
  return `${wording(data, name).when} layer ${data.layers[state.layer]}, “${shown}” ${verb} ${list}`;
}
