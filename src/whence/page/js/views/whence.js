// @ts-check
// Whence: the sources of one token, layer after layer.

import {
  apart,
  called,
  error,
  errorsOf,
  estimated,
  lacking,
  largest,
  listed,
  part,
  sinking,
  sinks,
  values,
  wording,
} from "../core/data.js";
import { h, offered, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { drawing, grid } from "../core/grid.js";
import { layersByTokens } from "./layers.js";
import { held } from "../core/state.js";

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held: leaving, say, choices, body, leave } = figure(container, data, "sources"),
    awaited = state.map ? null : state.live?.awaited("sources");
  choices.hidden = body.hidden = leave.hidden = Boolean(awaited);
  if (awaited) return say(`Measuring ${awaited}`, "");
  const field = sources(data, state),
    name = field.variable,
    { token } = state,
    width = data.tokens.length,
    signed = data.variables[name].signed;
  select(choices, "map", "By", options(data), name, (value) => state.set({ map: value }));
  offered(choices, held(state, "map", options(data)).better, (value) => state.set({ map: value }));
  const numbers = values(data, field, token),
    resting = data.layers.map((_, layer) => sinks(data, layer)[token] ?? "0").join(""),
    doubt = estimated(data, name),
    marks = resting.includes("1"),
    row = (layer) => numbers.subarray(layer * width, (layer + 1) * width);
  say(
    lacking(data, name, state.layer, token) || finding(data, name, row(state.layer), state),
    [field.meaning, !signed && "Each row is drawn as shares of its sum.", doubt, marks && sinking(data, "map", resting)]
      .filter(Boolean)
      .join(" "),
  );
  const spec = (colors) => ({
    ...layersByTokens(data, colors, {
      ...{ numbers, estimated: doubt !== "", signed, percent: !signed || data.styles[name].percent },
      ...{ name: `Sources of ${called(data, token)}, layer by layer`, at: { ...state, token: state.source } },
      tell: ({ layer, token: source }, value) => {
        const off = `${error(data, name, layer, token, source)}${source === token ? ", itself" : ""}`;
        const also = resting[layer] === "1" ? `\n${sinking(data, "row")}` : "";
        return ` → ${called(data, token)} (${token}), layer ${data.layers[layer]}\n${value}${off}${also}`;
      },
      pick: (at) => state.set({ layer: at.layer, source: at.token }),
    }),
    marked: token,
    flagged: marks ? { word: data.sinks.words.label, rows: [...resting].reverse().join("") } : null,
  });
  const main = once(body, () => body.appendChild(h("div", { class: "main" })));
  grid(main, spec(palette), palette);
  leaving.pictures = (colors) => [drawing(main, spec(colors), colors)];
  leaving.table = () => table(data, name, token, row);
}

/** @param {import("../core/data.js").Data} data @param {(layer: number) => Float32Array} row */
function table(data, name, token, row) {
  const { signed } = data.variables[name],
    doubtful = estimated(data, name) !== "",
    header = ["map", "layer", "target", "target_token", "source", "source_token", signed ? "value" : "share"];
  const rows = data.layers.flatMap((layer, at) => {
    const numbers = row(at),
      off = doubtful ? errorsOf(data, name, at, token) : null,
      target = data.tokens[token].text;
    return data.tokens.map(({ text }, source) => [
      ...[name, layer, token, target, source, text, numbers[source]],
      ...(off ? [off[source]] : []),
    ]);
  });
  return { header: doubtful ? [...header, "standard_error"] : header, rows };
}

/**
 * By what it is told where a token came from: by the map that is chosen, or the best there is.
 * @param {import("../core/data.js").Data} data
 */
export function sources(data, state) {
  return data.fields.find((one) => one.kind === "sources" && one.variable === held(state, "map", options(data)).key);
}

function options(data) {
  return data.fields.filter(({ kind }) => kind === "sources").map(({ variable, title }) => [variable, title]);
}

/** What the sources of the chosen token are, in words. @param {import("../core/data.js").Data} data */
export function finding(data, name, row, { layer, token }) {
  const { verb, to, when } = wording(data, name),
    format = part(data, name);
  const best = largest(row, 3),
    names = apart(
      best.map((source) => called(data, source)),
      best,
    );
  const parts = best.map((source, at) => `${format(row[source])} ${to} ${source === token ? "itself" : names[at]}`);
  return `${when} layer ${data.layers[layer]}, “${called(data, token)}” ${verb} ${listed(parts)}`;
}
