// @ts-check
// Compare: two measures of one model, or two models, on the same sentence.

import { contrast, most, table } from "./beside.js";
import { modelName } from "../core/data.js";
import { h, kept, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { chosen } from "../core/state.js";

/** @typedef {import("../core/data.js").Field} Field */

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, data, "compare");
  const other = data.beside?.other ?? null,
    theirs = other ?? data,
    { live } = state;
  const field = named(data, state.field, preferred(data.fields));
  const alike = (one) => one.key !== field.key && sort(one) === sort(field);
  const second = named(theirs, state.against, other ? field.key : theirs.fields.findLast(alike)?.key);
  if (live?.models.length > 1) {
    const others = live.models.filter((name) => name !== data.attrs.model).map((name) => [name, modelName(name)]);
    select(choices, "model", "With", [["", "another measure"], ...others], state.other ?? "", live.other);
  }
  select(choices, "field", "Show", options(data), field.key, (value) => state.set({ field: value, against: "" }));
  select(choices, "against", "and", options(theirs), second.key, (value) => state.set({ against: value }));
  body.classList.add("sides");
  const heading = (side, { name }) => (other ? `${modelName(side.attrs.model)}: ${name}` : name);
  /** @type {[import("./beside.js").Side, import("./beside.js").Side]} */
  const sides = [
    { data, field, heading: heading(data, field) },
    { data: theirs, field: second, heading: heading(theirs, second) },
  ];
  const found = contrast(body, sides, state, palette),
    largest = most(sides, found);
  say(
    largest.words ? `They differ most about ${largest.words}` : largest.nothing,
    [subtitle(sides, found, other), largest.doubt].filter(Boolean).join(" "),
  );
  kept(choices, "note", () => h("p", { class: "closer" })).textContent =
    live && state.other && !other ? "The other model is being measured …" : "";
  held.pictures = found.pictures;
  held.table = () => table(sides, found);
}

/** @returns {string[][]} */
export function options(data) {
  return data.fields.map(({ key, label }) => [key, label]);
}

/** @returns {Field} */
export function named(data, key, usual = "") {
  const found = chosen(key || usual, options(data));
  return data.fields.find((field) => field.key === found);
}

// Where the chosen token came from: measures disagree most about that.
function preferred(fields) {
  const sources = fields.filter(({ kind }) => kind === "sources");
  return (sources.find((field) => !field.since_input) ?? sources[0])?.key;
}

// The same kind of quantity, over one layer or over all of them.
function sort({ kind, since_input: since }) {
  return `${kind} ${since}`;
}

function subtitle([one, two], { partner }, other) {
  const missing = partner.filter((place) => place < 0).length,
    depths = [one, two].map(({ data }) => data.layers.length);
  return [
    "Blue: more in the second; orange: less.",
    missing ? `${missing} of ${partner.length} tokens have no counterpart and stay blank.` : "",
    depths[0] === depths[1] ? "" : `Layers are matched by depth: ${depths[0]} against ${depths[1]}.`,
    one.field.kind !== two.field.kind ? "The two are different quantities." : "",
    one.field.kind === two.field.kind && sort(one.field) !== sort(two.field)
      ? "One counts from the input on, the other one layer."
      : "",
    other ? "" : "Both are of the same model.",
  ]
    .filter(Boolean)
    .join(" ");
}
