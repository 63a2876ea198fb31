// Compare: two measures of one model, or two models, on the same sentence.

import { contrast, doubt, fieldName, fields, most, sentence, table } from "./beside.js";
import { sinceInput } from "../core/data.js";
import { h, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { chosen } from "../core/state.js";

export function render(container, data, state, palette) {
  const { held, say, choices, body } = figure(container, { name: "compare" });
  const other = data.beside?.other ?? null,
    live = state.live;
  const mine = fields(data),
    key = chosen(state.field || preferred(data, mine), mine);
  const theirs = other ? fields(other) : mine,
    second = chosen(
      state.against || (other ? key : theirs.findLast(([name]) => name !== key && alike(data, name, key))?.[0]),
      theirs,
    );
  if (live && live.models.length > 1)
    select(
      choices,
      "model",
      "With",
      [["", "another measure"], ...live.models.filter((name) => name !== data.attrs.model).map((name) => [name, name])],
      state.other ?? "",
      (value) => live.other(value),
    );
  select(choices, "field", "Show", mine, key, (value) => state.set({ field: value, against: "" }));
  select(choices, "against", "and", theirs, second, (value) => state.set({ against: value }));
  body.classList.add("sides");
  const sides = [
    { data, key, heading: other ? `${data.attrs.model}: ${fieldName(data, key)}` : fieldName(data, key) },
    {
      data: other ?? data,
      key: second,
      heading: other ? `${other.attrs.model}: ${fieldName(other, second)}` : fieldName(data, second),
    },
  ];
  const found = contrast(body, sides, state, palette),
    largest = most(found, data);
  say(
    largest ? `They differ most about ${sentence(data, largest)}` : "Nothing here can be compared",
    `${subtitle(sides, found, other)}${doubt(sides[0], largest, state)}`,
  );
  const waiting = once(choices, () => new Map());
  if (!waiting.has("note")) waiting.set("note", choices.appendChild(h("p", { class: "closer" })));
  waiting.get("note").textContent = live && state.other && !other ? "The other model is being measured …" : "";
  held.palette = palette;
  held.pictures = found.pictures;
  held.table = () => table(sides, found);
}

// Where the chosen token came from: measures disagree most about that.
function preferred(data, options) {
  const sources = options.map(([name]) => name).filter((name) => kind(name) === "sources");
  return sources.find((name) => !sinceInput(data, name.slice(8))) ?? sources[0];
}

// The same kind of quantity, over one layer or over all of them.
function alike(data, one, other) {
  return (
    kind(one) === kind(other) &&
    sinceInput(data, one.replace("sources ", "")) === sinceInput(data, other.replace("sources ", ""))
  );
}

function kind(key) {
  return key.startsWith("sources ") ? "sources" : key.startsWith("mixing ") || key === "attention" ? "others" : "own";
}

function subtitle([one, two], found, other) {
  const missing = found.partner.filter((place) => place < 0).length;
  const tokens = missing ? ` ${missing} of ${found.partner.length} tokens have no counterpart and stay blank.` : "";
  const depth =
    one.data.layers.length === two.data.layers.length
      ? ""
      : ` Layers are matched by depth: ${one.data.layers.length} against ${two.data.layers.length}.`;
  const also = alike(one.data, one.key, two.key)
    ? ""
    : kind(one.key) === kind(two.key)
      ? " One counts from the input on, the other one layer."
      : " The two are different quantities.";
  return `Blue: more in the second; orange: less.${tokens}${depth}${also}${other ? "" : " Both are of the same model."}`;
}
