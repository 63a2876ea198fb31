// @ts-check
// Maps: who takes how much from whom, target by source, in one layer and one head or all.

import { border, called, farthest, lacking, map, notes, others, perHead as byHead } from "../core/data.js";
import { sharing, sinking, sinks, title, wording, written } from "../core/data.js";
import { select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { drawing, grids, sized } from "../core/grid.js";
import { LONG, NARROW, gutter } from "../core/layout.js";
import { limit, number, percent, scale } from "../core/scale.js";
import { chosen } from "../core/state.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {{ names: string[], values: Float32Array[], ends: number[] }} Maps  side by side
 */

const DIFFERENCE = "difference";

export function perHead(data, state) {
  const key = chosen(state.maps, sets(data));
  return byHead(data, key) || byHead(data, chosen(state.minus, against(data, key)));
}

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, data, "maps");
  const all = sets(data),
    key = chosen(state.maps, all),
    subtrahends = against(data, key),
    minus = chosen(state.minus, subtrahends);
  select(choices, "maps", "Map", all, key, (value) => state.set({ maps: value }));
  select(choices, "minus", "Minus", subtrahends, minus, (value) => state.set({ minus: value }));
  const { names, values, ends } = minus ? contrast(data, state, key, minus) : side(data, state, key);
  const none = lacking(data, key, state.layer, state.token) || lacking(data, minus, state.layer);
  if (none) say(none, `Rows and columns are the tokens; ${title(data, key)} is there where a layer attends.`);
  else if (minus) say(contrastFinding(data, names, values[2], state), contrastSubtitle(data, names, state));
  else say(finding(data, names[0], values[0], state), subtitle(data, names, state));

  const specs = (colors) =>
    names.map((name, place) => spec(data, state, colors, name, values[place], ends[place], minus !== ""));
  const drawn = specs(palette),
    least = gutter(sized(drawn[0])) + data.tokens.length * (NARROW + 1) + 8;
  body.classList.toggle("several", names.length > 1);
  body.style.setProperty("--least", `${data.tokens.length > LONG ? 320 : Math.max(least, 320)}px`);
  const panes = grids(body, drawn, palette);
  held.pictures = (colors) => specs(colors).map((one, place) => drawing(panes[place], one, colors));
  held.table = () => table(data, state, names, values);
}

/** What can be chosen: one entry for maps that are drawn together, one for each of the others. @returns {string[][]} */
function sets(data) {
  const parts = data.sums.flatMap(({ names }) => names);
  const together = data.sums.filter(({ names }) => names.length).map(({ names }) => [names[0], titles(data, names)]);
  const rest = [...data.head_maps, ...data.maps].filter((name) => !parts.includes(name));
  return [...together, ...rest.map((name) => [name, title(data, name)])];
}

function titles(data, names) {
  return names.map((name) => title(data, name)).join(", ");
}

/** The maps of which this one is the sum or a part. @param {Data} data */
export function together(data, name) {
  return data.sums.find(({ names }) => names.includes(name)) ?? null;
}

/** One map, or those that are parts of each other, on one scale. @returns {Maps} */
function side(data, state, key) {
  const all = together(data, key)?.names ?? [key],
    maps = all.map((name) => map(data, name, state.layer, state.head)),
    names = all.length > 2 && nothing(maps[2]) ? [key] : all, // a part that is nothing is said, not drawn
    values = maps.slice(0, names.length),
    end = Math.max(...values.map(limit));
  return { names, values, ends: names.map(() => end) };
}

function nothing(values) {
  return values.every((value) => !(Math.abs(value) > 1e-4));
}

/** Two maps as shares of their rows, and one minus the other. @returns {Maps} */
function contrast(data, state, key, minus) {
  const cache = `minus ${key} ${minus} ${state.layer} ${state.head}`;
  if (!data.cache.has(cache)) {
    const [one, other] = [key, minus].map((name) => sharing(data, name, state.layer, state.head));
    data.cache.set(cache, [one, other, one.map((value, place) => value - other[place])]);
  }
  const values = data.cache.get(cache),
    end = Math.max(limit(values[0]), limit(values[1]));
  return { names: [key, minus, DIFFERENCE], values, ends: [end, end, limit(values[2])] };
}

/** @returns {string[][]} */
function against(data, key) {
  const names = [...data.maps, ...data.head_maps].filter((name) => name !== key);
  return [["", "nothing"], ...names.map((name) => [name, title(data, name)])];
}

/** @returns {import("../core/grid.js").Spec} */
export function spec(data, state, palette, name, values, end, shares) {
  const width = data.tokens.length,
    labels = data.tokens.map(({ shown, special }) => ({ text: shown, special })),
    heading = name === DIFFERENCE ? "difference" : title(data, name),
    format = shares ? percent : written(data, name),
    resting = sunk(data, name, state);
  return {
    ...{ name: `${heading}, targets by sources`, heading, labels: "top", square: true, wide: 34, tall: 34 },
    ...{ rows: labels, columns: labels, values, numbers: format === percent, format },
    value: (row, column) => values[row * width + column],
    scale: scale(palette, end, name === DIFFERENCE || data.variables[name].signed),
    beyond: values.some((value) => Math.abs(value) > end),
    flagged: resting.includes("1") ? { word: data.sinks.words.label, rows: resting } : null,
    brief: (value) => (format === percent ? (value * 100).toFixed(0) : number(value)),
    describe: (row, column) => {
      const value = values[row * width + column],
        blank = data.causal && column > row ? "comes later: cannot be seen" : "not measured",
        none = lacking(data, name, state.layer) || blank,
        words = Number.isNaN(value) ? none : `${format(value)} ${heading}`,
        also = resting[row] === "1" ? `\n${sinking(data, "row")}` : "";
      return `${called(data, row)} (${row}) ← ${called(data, column)} (${column})\n${words}${also}`;
    },
    border: border(data),
    selected: { row: state.token, column: state.source },
    select: ({ row, column }) => state.set({ token: row, source: column }),
  };
}

// Which rows of a map rest on the first token: of one head where the map has heads and one is chosen.
function sunk(data, name, { layer, head }) {
  return sinks(data, layer, byHead(data, name) ? head : "mean");
}

// The chosen token's row.
function rowOf(data, values, { token }) {
  return values.subarray(token * data.tokens.length, (token + 1) * data.tokens.length);
}

function whom(data, source, { token }) {
  return source === token ? "itself" : `“${called(data, source)}”`;
}

export function finding(data, name, values, state) {
  const row = rowOf(data, values, state),
    most = farthest(row, (value) => value),
    layer = `layer ${data.layers[state.layer]}`;
  if (most < 0) return layer;
  const where = byHead(data, name) && state.head !== "mean" ? `In head ${state.head} of ${layer}` : `In ${layer}`;
  const { verb, to } = wording(data, name),
    value = written(data, name)(row[most]);
  const said = `${verb} most ${to} ${whom(data, most, state)}: ${value} (${title(data, name)})`;
  return `${where}, “${called(data, state.token)}” ${said}`;
}

/** @param {Data} data @param {string[]} names @param {Float32Array} values */
function contrastFinding(data, [one, other], values, state) {
  const row = rowOf(data, values, state),
    most = Math.max(farthest(row), 0),
    more = `${percent(Math.abs(row[most]))} ${row[most] < 0 ? "less" : "more"} from ${whom(data, most, state)}`;
  const gives = `${title(data, one)} gives “${called(data, state.token)}” ${more} than ${title(data, other)}`;
  return `In layer ${data.layers[state.layer]}, ${gives}`;
}

function heads(data, { head }) {
  return head === "mean" ? `Mean of ${data.heads} heads.` : `Head ${head}.`;
}

/** @param {Data} data @param {string[]} names */
function contrastSubtitle(data, [one, other], state) {
  const which = [one, other].some((name) => byHead(data, name)) ? ` ${heads(data, state)}` : "";
  const colors = `Blue: more by ${title(data, one)}; orange: more by ${title(data, other)}.`;
  return `Rows are targets, columns sources; every row of both maps as shares of its sum.${which} ${colors}`;
}

function subtitle(data, names, state) {
  const known = byHead(data, names[0]) && state.head !== "mean" ? notes(data, state.layer, state.head).join(", ") : "";
  const sum = together(data, names[0]),
    parts = names.length > 1 ? sum.meaning : sum?.names.length > 2 ? sum.nothing : data.styles[names[0]].meaning;
  return [
    `Rows ${wording(data, names[0]).rows} columns.`,
    byHead(data, names[0]) ? heads(data, state) : "",
    known && `${known[0].toUpperCase()}${known.slice(1)}.`,
    parts,
    sunk(data, names[0], state).includes("1") && sinking(data, "map", others(data, sunk(data, names[0], state))),
  ]
    .filter(Boolean)
    .join(" ");
}

function table(data, state, names, values) {
  const width = data.tokens.length,
    layer = data.layers[state.layer];
  const line = (name, place, at) => {
    const [target, source] = [Math.floor(at / width), at % width],
      tokens = [target, data.tokens[target].text, source, data.tokens[source].text];
    return [name, layer, byHead(data, name) ? state.head : "", ...tokens, values[place][at]];
  };
  return {
    header: ["map", "layer", "head", "target", "target_token", "source", "source_token", "value"],
    rows: names.flatMap((name, place) => Array.from({ length: width ** 2 }, (_, at) => line(name, place, at))),
  };
}
