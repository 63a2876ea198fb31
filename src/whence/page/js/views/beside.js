// Two sides and their difference: layers by tokens, of one sentence and another, one model and another, one measure and another.

import { aligned } from "../core/align.js";
import { called, shares, title } from "../core/data.js";
import { h, once } from "../core/dom.js";
import { drawing, grid } from "../core/grid.js";
import { height, quantities, quantity } from "./left.js";
import { limit, number, percent, scale } from "../core/scale.js";
import { error, options } from "./whence.js";

const SOURCES = "sources ";

// What can be put side by side: what is left of every token, and the sources of the chosen one.
export function fields(data) {
  return [...quantities(data), ...options(data).map(([name, label]) => [`${SOURCES}${name}`, `sources: ${label}`])];
}

// Values layer by token.
function values(data, key, token) {
  if (!key.startsWith(SOURCES)) return quantity(data, key);
  const name = key.slice(SOURCES.length),
    width = data.tokens.length,
    found = new Float32Array(width * data.layers.length);
  for (let layer = 0; layer < data.layers.length; layer++) found.set(shares(data, name, layer, token), layer * width);
  return found;
}

// sides: [{ data, key, heading }, { … }]. The first is the one the selection is about.
export function contrast(body, [one, other], state, palette) {
  const partner =
    one.data === other.data ? Int32Array.from(one.data.tokens.keys()) : aligned(one.data.tokens, other.data.tokens);
  const token =
    partner[state.token] >= 0
      ? partner[state.token]
      : Math.max(
          other.data.tokens.findIndex((found) => !found.special),
          0,
        );
  const first = values(one.data, one.key, state.token),
    second = values(other.data, other.key, token);
  const level = (layer) =>
    one.data.layers.length === other.data.layers.length
      ? layer
      : Math.round(((layer + 1) / one.data.layers.length) * other.data.layers.length) - 1;
  const width = one.data.tokens.length,
    across = other.data.tokens.length;
  const difference = first.map((value, place) => {
    const column = partner[place % width];
    return column < 0 ? NaN : second[level(Math.floor(place / width)) * across + column] - value;
  });
  const ends = [first, second].map(limit),
    end = Math.max(...ends),
    signed = [first, second].map((found) => found.some((value) => value < 0));
  const specs = [
    spec(
      { ...one, values: first, end, signed: signed[0] || signed[1] },
      state,
      palette,
      { layer: state.layer, token: state.token },
      (layer, place) => state.set({ layer, token: place, source: place }),
    ),
    spec(
      { ...other, values: second, end, signed: signed[0] || signed[1] },
      state,
      palette,
      { layer: level(state.layer), token },
      (layer, place) => {
        const back = partner.indexOf(place);
        const at =
          one.data.layers.length === other.data.layers.length
            ? layer
            : Math.min(
                Math.round(((layer + 1) / other.data.layers.length) * one.data.layers.length),
                one.data.layers.length,
              ) - 1;
        state.set({ layer: Math.max(at, 0), ...(back >= 0 ? { token: back, source: back } : {}) });
      },
    ),
    spec(
      {
        data: one.data,
        heading: "difference, second minus first",
        values: difference,
        end: limit(difference),
        signed: true,
        columns: replaced(one.data, other.data, partner),
      },
      state,
      palette,
      { layer: state.layer, token: state.token },
      (layer, place) => state.set({ layer, token: place, source: place }),
    ),
  ];
  const parts = once(body, () =>
    specs.map(() => {
      const heading = h("h3", {}),
        main = h("div", { class: "main" });
      body.append(h("div", { class: "one" }, heading, main));
      return { heading, main };
    }),
  );
  for (const [place, part] of parts.entries()) {
    part.heading.textContent = specs[place].heading;
    grid(part.main, specs[place], palette);
  }
  return {
    partner,
    token,
    first,
    second,
    difference,
    pictures: () => specs.map((found, place) => drawing(parts[place].main, found, palette)),
  };
}

function spec({ data, heading, values: found, end, signed, columns }, state, palette, at, pick) {
  const depth = data.layers.length,
    width = data.tokens.length,
    format = percent;
  const value = (row, column) => found[(depth - 1 - row) * width + column];
  return {
    name: `${heading}, layers by tokens`,
    heading,
    corner: "layer",
    labels: "bottom",
    wide: 72,
    tall: Math.min(height(depth), 24),
    rows: data.layers.map((layer) => ({ text: String(layer) })).reverse(),
    columns: columns ?? data.tokens.map((token) => ({ text: token.shown, special: token.special })),
    value,
    scale: scale(palette, end, signed),
    beyond: found.some((one) => Math.abs(one) > end),
    format,
    brief: (one) => String(Math.round(one * 100) || 0).replace("-", "−"),
    describe: (row, column) =>
      `${called(data, column)} (${column}), layer ${data.layers[depth - 1 - row]}\n${Number.isFinite(value(row, column)) ? format(value(row, column)) : "has no counterpart"}`,
    selected: { row: depth - 1 - at.layer, column: at.token },
    select: ({ row, column }) => pick(depth - 1 - row, column),
  };
}

// Column names that say what a token became.
function replaced(one, other, partner) {
  return one.tokens.map((token, place) => {
    const found = other.tokens[partner[place]];
    return {
      text:
        found && found.text.toLowerCase() !== token.text.toLowerCase() && one !== other
          ? `${token.shown}→${found.shown}`
          : token.shown,
      special: token.special,
    };
  });
}

// The cell that differs most, as words.
export function most({ first, difference }, data) {
  let at = -1;
  for (let place = 0; place < difference.length; place++)
    if (Number.isFinite(difference[place]) && !(at >= 0 && Math.abs(difference[place]) <= Math.abs(difference[at])))
      at = place;
  if (at < 0) return null;
  const width = data.tokens.length;
  return { layer: Math.floor(at / width), token: at % width, before: first[at], after: first[at] + difference[at] };
}

export function sentence(data, found) {
  const form = Math.abs(found.before) < 10 ? percent : number;
  return `“${called(data, found.token)}” in layer ${data.layers[found.layer]}, from ${form(found.before)} to ${form(found.after)}`;
}

// What that cell may be off by where it was estimated, so that chance is not taken for a finding.
export function doubt({ data, key }, found, state) {
  const own = !key.startsWith(SOURCES),
    name = own ? key : key.slice(SOURCES.length);
  const off = found ? error(data, name, found.layer, own ? found.token : state.token, found.token) : "";
  return off && ` These are estimates; the first is known to${off} (standard error).`;
}

export function fieldName(data, key) {
  const known = fields(data).find(([name]) => name === key);
  return known
    ? known[1]
        .replace("own share: ", "own share by ")
        .replace("from others: ", "share from others by ")
        .replace("sources: ", "sources of the chosen token by ")
    : title(data, key);
}

// One row per layer and token of the first side.
export function table(sides, { partner, first, difference }) {
  const [one, other] = sides,
    width = one.data.tokens.length;
  const line = (at) => {
    const place = at % width,
      there = partner[place];
    return [
      one.data.layers[Math.floor(at / width)],
      place,
      one.data.tokens[place].text,
      there < 0 ? "" : other.data.tokens[there].text,
      first[at],
      first[at] + difference[at],
      difference[at],
    ];
  };
  return {
    header: [
      "layer",
      "place",
      "token",
      "other_token",
      one.key === other.key ? "first" : one.key,
      one.key === other.key ? "second" : other.key,
      "difference",
    ],
    rows: Array.from(first.keys(), line),
  };
}
