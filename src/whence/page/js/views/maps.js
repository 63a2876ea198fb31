// Maps: who takes how much from whom, target by source, in one layer and one head or all.

import { addsUp, called, lacking, map, sharing, title, wording } from "../core/data.js";
import { h, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { LONG, NARROW, drawing, grid, gutter } from "../core/grid.js";
import { limit, number, percent, scale } from "../core/scale.js";
import { chosen } from "../core/state.js";

const TOGETHER = ["attention", "effective", "null"]; // one is the sum of the others, so they share a scale
const DIFFERENCE = "difference";

export function perHead(data, state) {
  const key = chosen(state.maps, sets(data)),
    names = [key, chosen(state.minus, against(data, key))];
  return names.some((name) => data.variables[name]?.dims.includes("head"));
}

export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, { name: "maps" });
  const all = sets(data),
    key = chosen(state.maps, all),
    others = against(data, key),
    minus = chosen(state.minus, others);
  select(choices, "maps", "Map", all, key, (value) => state.set({ maps: value }));
  select(choices, "minus", "Minus", others, minus, (value) => state.set({ minus: value }));
  const { names, values, ends } = minus ? contrast(data, state, key, minus) : side(data, state, key);
  const none = lacking(data, key, state.layer) || lacking(data, minus, state.layer);
  if (none) say(none, `Rows and columns are the tokens; ${title(data, key)} is there where a layer attends.`);
  else
    say(
      minus ? contrastFinding(data, names, values[2], state) : finding(data, names[0], values[0], state),
      subtitle(data, names, values, state),
    );

  const specs = names.map((name, place) =>
    describe(data, state, palette, name, values[place], ends[place], minus !== ""),
  );
  const held_parts = once(body, () => []);
  while (held_parts.length < 3) {
    const heading = h("h3", {}),
      main = h("div", { class: "main" });
    held_parts.push({ whole: body.appendChild(h("div", { class: "one" }, heading, main)), heading, main });
  }
  body.classList.toggle("several", names.length > 1);
  const least =
    data.tokens.length > LONG ? 320 : Math.max(gutter(specs[0], false) + data.tokens.length * (NARROW + 1) + 8, 320);
  body.style.setProperty("--least", `${least}px`);
  for (const [place, part] of held_parts.entries()) part.whole.hidden = place >= names.length;
  for (const [place, spec] of specs.entries()) {
    held_parts[place].heading.textContent = named(data, names[place]);
    grid(held_parts[place].main, spec, palette);
  }
  held.palette = palette;
  held.pictures = () => specs.map((spec, place) => drawing(held_parts[place].main, spec, palette));
  held.table = () => table(data, state, names, values);
}

function sets(data) {
  const together = TOGETHER.filter((name) => data.variables[name]);
  const first = together.length ? [[together[0], together.map((name) => title(data, name)).join(", ")]] : [];
  const rest = [...data.head_maps.filter((name) => !TOGETHER.includes(name)), ...data.maps];
  return [...first, ...rest.map((name) => [name, title(data, name)])];
}

// One map, or those that are parts of each other, on one scale.
function side(data, state, key) {
  const names = TOGETHER.includes(key) ? TOGETHER.filter((name) => data.variables[name]) : [key];
  const values = names.map((name) => map(data, name, state.layer, state.head)),
    end = Math.max(...values.map(limit));
  return { names, values, ends: names.map(() => end) };
}

// Two maps as shares of their rows, and one minus the other.
function contrast(data, state, key, minus) {
  const cache = `minus ${key} ${minus} ${state.layer} ${state.head}`;
  if (!data.cache.has(cache)) {
    const pair = [key, minus].map((name) => sharing(data, name, state.layer, state.head));
    data.cache.set(cache, [...pair, pair[0].map((value, place) => value - pair[1][place])]);
  }
  const values = data.cache.get(cache),
    end = Math.max(limit(values[0]), limit(values[1]));
  return { names: [key, minus, DIFFERENCE], values, ends: [end, end, limit(values[2])] };
}

function against(data, key) {
  const names = [...data.maps, ...data.head_maps].filter((name) => name !== key);
  return [["", "nothing"], ...names.map((name) => [name, title(data, name)])];
}

function named(data, name) {
  return name === DIFFERENCE ? "difference" : title(data, name);
}

function describe(data, state, palette, name, values, end, shares) {
  const width = data.tokens.length,
    labels = data.tokens.map((token) => ({ text: token.shown, special: token.special }));
  const signed = name === DIFFERENCE || data.variables[name].signed,
    share = shares || isShare(data, name),
    format = share ? percent : number;
  return {
    name: `${named(data, name)}, targets by sources`,
    labels: "top",
    square: true,
    wide: 34,
    tall: 34,
    heading: named(data, name),
    rows: labels,
    columns: labels,
    values,
    numbers: share,
    value: (row, column) => values[row * width + column],
    scale: scale(palette, end, signed),
    beyond: values.some((value) => Math.abs(value) > end),
    format,
    brief: (value) => (share ? (value * 100).toFixed(0) : number(value)),
    describe: (row, column) => {
      const value = values[row * width + column];
      const words = Number.isNaN(value)
        ? lacking(data, name, state.layer) || "comes later: cannot be seen"
        : `${format(value)} ${named(data, name)}`;
      return `${called(data, row)} (${row}) ← ${called(data, column)} (${column})\n${words}`;
    },
    selected: { row: state.token, column: state.source },
    select: ({ row, column }) => state.set({ token: row, source: column }),
  };
}

function isShare(data, name) {
  return TOGETHER.includes(name) || addsUp(data, name);
}

function finding(data, name, values, state) {
  const width = data.tokens.length,
    row = values.subarray(state.token * width, (state.token + 1) * width);
  let most = -1;
  for (let source = 0; source < width; source++)
    if (Number.isFinite(row[source]) && !(row[source] <= row[most])) most = source;
  if (most < 0) return `Layer ${data.layers[state.layer]}`;
  const format = isShare(data, name) ? percent : number,
    shown = called(data, state.token);
  const where =
    data.variables[name].dims.includes("head") && state.head !== "mean"
      ? `In head ${state.head} of layer ${data.layers[state.layer]}`
      : `In layer ${data.layers[state.layer]}`;
  const { verb, to } = wording(data, name);
  const whom = most === state.token ? "itself" : `“${called(data, most)}”`;
  return `${where}, “${shown}” ${verb} most ${to} ${whom}: ${format(row[most])} (${title(data, name)})`;
}

function contrastFinding(data, [one, other], values, state) {
  const width = data.tokens.length,
    row = values.subarray(state.token * width, (state.token + 1) * width);
  let most = 0;
  for (let source = 1; source < width; source++)
    if (!(Math.abs(row[source] || 0) <= Math.abs(row[most] || 0))) most = source;
  const whom = most === state.token ? "itself" : `“${called(data, most)}”`;
  return `In layer ${data.layers[state.layer]}, ${title(data, one)} gives “${called(data, state.token)}” ${percent(Math.abs(row[most]))} ${row[most] < 0 ? "less" : "more"} from ${whom} than ${title(data, other)}`;
}

function subtitle(data, names, values, state) {
  const perHead =
    data.variables[names[0]].dims.includes("head") ||
    (names.includes(DIFFERENCE) && data.variables[names[1]].dims.includes("head"));
  const heads = !perHead ? "" : state.head === "mean" ? `Mean of ${data.heads} heads.` : `Head ${state.head}.`;
  const at = state.layer * data.heads + state.head,
    read = (name) => data.variables[name]?.values[at];
  const rank =
    perHead && state.head !== "mean" && data.variables.value_rank
      ? ` Rank ${read("value_rank")}${data.variables.nullity ? `, null space of dimension ${read("nullity")}` : ""}.`
      : "";
  if (names.includes(DIFFERENCE))
    return `Rows are targets, columns sources; every row of both maps as shares of its sum. ${heads} Blue: more by ${title(data, names[0])}; orange: more by ${title(data, names[1])}.`;
  const parts = nothing(values[names.indexOf("null")])
    ? "All of it is effective: with so few tokens the values cancel nothing."
    : "Attention is the sum of an effective part and a part that the values cancel.";
  const meaning = names.length > 1 ? parts : (data.styles[names[0]]?.meaning ?? "");
  return `Rows ${wording(data, names[0]).rows} columns. ${heads}${rank} ${meaning}`;
}

function nothing(values) {
  return values?.every((value) => !(Math.abs(value) > 1e-4)) ?? false;
}

function table(data, state, names, values) {
  const rows = [],
    width = data.tokens.length;
  for (const [place, name] of names.entries())
    for (let target = 0; target < width; target++)
      for (let source = 0; source < width; source++)
        rows.push([
          name,
          data.layers[state.layer],
          data.variables[name]?.dims.includes("head") ? state.head : "",
          target,
          data.tokens[target].text,
          source,
          data.tokens[source].text,
          values[place][target * width + source],
        ]);
  return { header: ["map", "layer", "head", "target", "target_token", "source", "source_token", "value"], rows };
}
