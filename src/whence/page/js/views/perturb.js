// Perturb: change the sentence and see what changed in it, before, after and the difference.

import { contrast, doubt, fieldName, fields, most, sentence, table } from "./beside.js";
import { called } from "../core/data.js";
import { h, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { chosen } from "../core/state.js";

export function render(container, data, state, palette) {
  const parts = once(container, () => {
    const form = container.appendChild(h("div", {})),
      inner = container.appendChild(h("div", {}));
    return { form, inner, figure: figure(inner, { name: "perturb" }) };
  });
  if (state.live) editor(parts.form, data, state);
  const { held, say, choices, body, leave } = parts.figure,
    edited = data.beside?.edited ?? null;
  body.hidden = choices.hidden = leave.hidden = !edited;
  if (!edited)
    return say(
      "Change the sentence and see what moves",
      "Replace, mask or remove a word above; the same measures are taken of both sentences and compared token by token.",
    );
  const options = fields(data).filter(([key]) => fields(edited).some(([name]) => name === key)),
    key = chosen(state.field, options);
  select(choices, "field", "Show", options, key, (value) => state.set({ field: value }));
  body.classList.add("sides");
  const sides = [
    { data, key, heading: `before: ${fieldName(data, key)}` },
    { data: edited, key, heading: "after" },
  ];
  const found = contrast(body, sides, state, palette),
    largest = most(found, data);
  say(
    largest ? `The change moves this most: ${sentence(data, largest)}` : "Nothing is left to compare",
    `${words(data, edited, found)}${doubt(sides[0], largest, state)}`,
  );
  held.palette = palette;
  held.pictures = found.pictures;
  held.table = () => table(sides, found);
}

function words(data, edited, { partner }) {
  const same = (place) => partner[place] >= 0 && edited.tokens[partner[place]].text === data.tokens[place].text;
  const changed = [...partner.keys()].filter((place) => !same(place));
  const said = changed
    .slice(0, 4)
    .map((place) =>
      partner[place] < 0
        ? `“${called(data, place)}” is gone`
        : `“${called(data, place)}” is now “${called(edited, partner[place])}”`,
    );
  const added = edited.tokens.length - partner.filter((place) => place >= 0).length;
  return `${[...said, changed.length > 4 ? `${changed.length - 4} more changed` : "", added > 0 ? `${added} added` : ""].filter(Boolean).join("; ") || "The sentences are the same"}. Blue: more after the change; orange: less.`;
}

// The second sentence, and changes that are often wanted.
function editor(container, data, state) {
  const parts = once(container, () => {
    const input = h("textarea", { rows: "2", spellcheck: "false", dir: "auto", "aria-label": "The changed sentence" });
    const go = h("button", { type: "submit", class: "go" }, "Measure the change");
    const quick = h("div", { class: "choices" });
    const form = h("form", { class: "ask" }, input, h("div", { class: "choices" }, go, quick));
    container.append(form);
    return { input, form, quick, text: null };
  });
  if (parts.text !== data.attrs.text || document.activeElement !== parts.input)
    parts.input.value = state.edited || (parts.text === data.attrs.text && parts.input.value) || data.attrs.text;
  parts.text = data.attrs.text;
  const submit = (text) => {
    parts.input.value = text;
    state.live.edit(text);
  };
  parts.form.onsubmit = (event) => {
    event.preventDefault();
    submit(parts.input.value);
  };
  parts.input.onkeydown = (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      submit(parts.input.value);
    }
  };
  parts.quick.replaceChildren(
    ...changes(data, state).map(([label, text]) => h("button", { type: "button", onclick: () => submit(text) }, label)),
  );
}

function changes(data, state) {
  const { text } = data.attrs,
    { word } = data.tokens[state.token],
    at = word ? position(data, state.token, word) : -1;
  const cut = (by) => `${text.slice(0, at)}${by}${text.slice(at + word.length)}`.replace(/ {2,}/g, " ").trim();
  const found = [];
  if (at >= 0 && state.live.masks(data.attrs.model)) found.push([`Mask “${word}”`, cut("[MASK]")]);
  if (at >= 0 && cut("")) found.push([`Remove “${word}”`, cut("")]);
  if (/\S\s*\.\s*$/.test(text)) found.push(["Remove the final period", text.replace(/\s*\.\s*$/, "")]);
  return found.filter(([, changed]) => changed !== text);
}

// Where in the text the word of a token stands: as many equal words come before it as before the token.
function position(data, token, word) {
  let at = -1;
  for (let place = 0; place <= token; place++) {
    const found = data.tokens[place],
      again = place > 0 && data.tokens[place - 1].word === found.word && /^##/.test(found.text);
    if (found.word && !again)
      at =
        Math.max(data.attrs.text.indexOf(found.word, at + 1), -1) === -1
          ? at
          : data.attrs.text.indexOf(found.word, at + 1);
  }
  return data.attrs.text.startsWith(word, at) ? at : -1;
}
