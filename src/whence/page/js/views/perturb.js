// @ts-check
// Perturb: change the sentence and see what changed in it, before, after and the difference.

import { contrast, most, table } from "./beside.js";
import { named, options } from "./compare.js";
import { called, said } from "../core/data.js";
import { h, once, select } from "../core/dom.js";
import { quoted, storyOf } from "../core/explained.js";
import { figure } from "../core/figure.js";
import { held as pinned } from "../core/state.js";
import { entered } from "../core/walk.js";
import * as hero from "./hero.js";

/** @typedef {import("../core/explained.js").Explained} Explained */

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const parts = once(container, () => {
    const form = container.appendChild(h("div", {})),
      inner = h("div", {}),
      told = figure(inner, data, "perturb"),
      after = h("div", { class: "hero after" });
    told.choices.before(after);
    container.append(inner);
    return { form, after, figure: told };
  });
  if (state.live) editor(parts.form, data, state);
  const { held, say, choices, body, leave } = parts.figure,
    edited = data.beside?.edited ?? null;
  const now = edited?.why;
  parts.after.hidden = !now;
  if (now) hero.render(parts.after, storyOf(now, 0, -1), now.palette[state.shade], () => {}, "h3");
  body.hidden = choices.hidden = leave.hidden = !edited;
  if (!edited)
    return say(
      "Change the sentence and see what moves",
      "Replace, mask or remove a word above; the same is measured of both sentences and compared token by token.",
    );
  const doubtful = (/** @type {string[]} */ [key]) => Number(named(data, key).variable in data.errors),
    both = options(data).filter(([key]) => options(edited).some(([name]) => name === key)),
    shared = both.sort((one, other) => doubtful(one) - doubtful(other)), // what is exact shows a change best
    { key } = pinned(state, "field", shared),
    field = named(data, key);
  select(choices, "field", "Show", shared, key, (value) => state.set({ field: value }));
  body.classList.add("sides");
  /** @type {[import("./beside.js").Side, import("./beside.js").Side]} */
  const sides = [
    { data, field, heading: `before: ${field.name}` },
    { data: edited, field: named(edited, key), heading: "after" },
  ];
  const found = contrast(body, sides, state, palette),
    largest = most(sides, found);
  const moved = largest.words ? `The change moves this most: ${largest.words}.` : largest.nothing,
    shades =
      largest.words && `Blue: more after the change; orange: less${largest.doubt && "; blank: no more than chance"}.`,
    lead = data.why && now ? becomes(data.why, now) : "";
  say(
    lead || moved,
    [`${words(data, edited, found)}.`, lead && moved, shades, largest.doubt].filter(Boolean).join(" "),
  );
  held.pictures = found.pictures;
  held.table = () => table(sides, found);
}

/** What became of the prediction. @param {Explained} before @param {Explained} after */
function becomes({ words, predicted: [was] }, { predicted: [is] }) {
  const names = { before: quoted(was.token), after: quoted(is.token) },
    chances = { chance: was.chance, other: is.chance };
  return said(was.token === is.token ? words.stays : words.becomes, { ...names, ...chances });
}

function words(data, edited, { partner }) {
  const same = (place) => partner[place] >= 0 && edited.tokens[partner[place]].text === data.tokens[place].text;
  const now = (place) => (partner[place] < 0 ? "is gone" : `is now “${called(edited, partner[place])}”`);
  const changed = [...partner.keys()].filter((place) => !same(place)),
    added = edited.tokens.length - partner.filter((place) => place >= 0).length;
  const all = [
    ...changed.slice(0, 4).map((place) => `“${called(data, place)}” ${now(place)}`),
    changed.length > 4 ? `${changed.length - 4} more changed` : "",
    added > 0 ? `${added} added` : "",
  ];
  return all.filter(Boolean).join("; ") || "The sentences are the same";
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
  const { input } = parts,
    same = parts.text === data.attrs.text;
  if (!same || document.activeElement !== input) input.value = state.edited || (same && input.value) || data.attrs.text;
  parts.text = data.attrs.text;
  const submit = (text) => {
    input.value = text;
    state.live.edit(text);
  };
  parts.form.onsubmit = (event) => {
    event.preventDefault();
    submit(input.value);
  };
  entered(input, () => submit(input.value));
  parts.quick.replaceChildren(
    ...changes(data, state).map(([label, text]) => h("button", { type: "button", onclick: () => submit(text) }, label)),
  );
}

/** @returns {string[][]} */
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
  const { text } = data.attrs;
  let at = -1;
  for (const [place, { word: one, text: piece }] of data.tokens.slice(0, token + 1).entries()) {
    const again = place > 0 && data.tokens[place - 1].word === one && piece.startsWith("##"),
      next = one && !again ? text.indexOf(one, at + 1) : -1;
    if (next >= 0) at = next;
  }
  return text.startsWith(word, at) ? at : -1;
}
