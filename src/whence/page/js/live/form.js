// @ts-check
// What the page asks the reader: a sentence, a model, and what else to measure; and how the work goes.

import { modelName } from "../core/data.js";
import { h, hide } from "../core/dom.js";
import { entered } from "../core/walk.js";

/**
 * @typedef {import("./next.js").Known} Known
 * @typedef {{ submit(): void, cancel(): void, save(how: string): void, more(): void,
 *   measure(name: string): void, example(one: { text: string, model: string }): void }} Acts
 * @typedef {{ busy: boolean, said: string, share: number, alarm: string,
 *   offer: { name: string, words: string } | null }} Work
 */

const SOON = 400; // milliseconds after which work is worth scrolling to
const WAYS = [
  ["Link", "Copy the link: the address of this very view"],
  ["HTML", "Save as HTML: one file that opens offline"],
  ["netCDF", "Save as netCDF: all numbers, for Python and others"],
];

/**
 * Builds the form; what comes back reads and fills it and shows how the work goes.
 * @param {HTMLElement} container @param {HTMLElement} ways  where it is said how a page leaves @param {Known} known
 * @param {Acts} acts
 */
export function form(container, ways, known, acts) {
  const text = area("text", "2", "Sentence", "Type a sentence; [MASK] hides a word"),
    pair = area("pair", "1", "Second sentence", "A second sentence that the model reads with the first");
  const second = button("", () => {
    unfold(pair.hidden);
    if (!pair.hidden) pair.focus();
  });
  const unfold = (open) => {
    pair.hidden = !open;
    second.textContent = open ? "One sentence" : "Second sentence";
    second.setAttribute("aria-expanded", String(open));
    if (!open) pair.value = "";
  };
  const options = known.models.map(({ name }) => h("option", { value: name, title: name }, modelName(name))),
    model = h("select", { id: "model", "aria-label": "Model" }, ...options),
    many = known.models.length > 1 ? {} : { hidden: "" };
  const extra = measures(known, acts.more, second),
    tries = offered(known, acts),
    go = h("button", { type: "submit", class: "go" }, "Measure"),
    progress = work(go, acts);
  const leave = WAYS.map(([name, about]) => button(name, () => acts.save(name), { title: about, "aria-label": about }));
  const choices = [h("label", { class: "choice", ...many }, h("span", {}, "Model"), model), extra.whole];
  const whole = h("form", { class: "ask", "aria-label": "What to measure" }, text, go, pair);
  whole.append(h("div", { class: "choices" }, tries.row, begin(), ...choices), ...progress.parts);
  whole.onsubmit = (event) => {
    event.preventDefault();
    acts.submit();
  };
  for (const field of [text, pair]) entered(field, acts.submit);
  model.onchange = () => {
    extra.offer(model.value, extra.asked().measures);
    tries.offer(model.value);
  };
  container.append(whole);
  ways.append("Share", ...leave);
  return {
    show: progress.show,
    asked: () => ({
      ...{ text: text.value, pair: pair.hidden ? "" : pair.value, model: model.value },
      ...extra.asked(),
    }),
    /** @param {import("./next.js").Ask} ask */
    fill(ask) {
      text.value = ask.text;
      unfold(Boolean(ask.pair));
      pair.value = ask.pair;
      model.value = ask.model;
      extra.offer(ask.model, ask.measures, ask.truncate === "1");
      tries.offer(ask.model);
    },
  };
}

/**
 * Sentences to begin with: those for the chosen model, and one for the other kind; one that no model here can answer is
 * told, not asked.
 * @param {Known} known @param {Acts} acts
 */
function offered({ models, examples }, acts) {
  const row = h("div", { class: "examples", role: "group", "aria-label": "Examples" }, h("span", {}, "Try"));
  const all = examples.map(({ text, about, causal }) => {
    const model = models.find((one) => one.causal === causal)?.name ?? "",
      act = model ? () => acts.example({ text, model }) : undefined;
    return button("", act, { class: "example", title: `${text}\n${about}`, disabled: model ? undefined : "" });
  });
  row.append(...all);
  /** @param {string} model */
  const offer = (model) => {
    const own = models.find(({ name }) => name === model)?.causal;
    for (const [place, { name, causal, elsewhere }] of examples.entries()) {
      all[place].textContent = causal === own ? name : elsewhere;
      hide(all[place], causal !== own && !elsewhere, row);
    }
  };
  return { row, offer };
}

const STEPS = [
  [
    "Type a sentence",
    "[MASK] hides a word for the model to guess; a decoder goes on where the text ends. Or click an example.",
  ],
  ["Read the picture", "The bar is the prediction; each ribbon is what one token gave to it, as wide as it gave much."],
  ["Ask on", "Click a token to follow it, and a tab for the next question. Link keeps what you see."],
];

/** Three steps for whoever has never been here. */
function begin() {
  const steps = STEPS.map(([title, text]) => h("li", {}, h("strong", {}, title), ` ${text}`));
  return h("details", { class: "begin" }, h("summary", {}, "Start here"), h("ol", {}, ...steps));
}

function area(id, rows, name, placeholder) {
  return h("textarea", { id, rows, placeholder, "aria-label": name, dir: "auto", spellcheck: "false" });
}

function button(text, onclick, more = {}) {
  return h("button", { type: "button", class: "quiet", onclick, ...more }, text);
}

/** What waits to be asked for. @param {Known} known @param {HTMLElement} second  asks for a second sentence */
function measures(known, more, second) {
  const truncate = h("input", { type: "checkbox", id: "truncate", onchange: more }),
    list = h("div", { class: "boxes" }),
    cut = h("label", { class: "choice" }, truncate, "cut off what is longer than the model takes");
  /** @type {HTMLInputElement[]} */
  let boxes = [];
  const offer = (model, wanted, whole = truncate.checked) => {
    const given = known.models.find(({ name }) => name === model).measures,
      asked = given.filter((name) => known.measures[name].stage === null || known.measures[name].offer);
    boxes = asked.map((name) => h("input", { type: "checkbox", value: name, onchange: more }));
    for (const box of boxes) box.checked = wanted.split(",").includes(box.value);
    const labels = boxes.map((box) => {
      const { about, slow } = known.measures[box.value];
      return h("label", { class: "choice", title: about }, box, `${box.value}${slow ? " (slow)" : ""}`);
    });
    list.replaceChildren(...labels);
    truncate.checked = whole;
  };
  const asked = () => {
    const ticked = boxes.filter((box) => box.checked).map((box) => box.value);
    return { measures: ticked.join(","), truncate: truncate.checked ? "1" : "" };
  };
  const rest = [h("div", { class: "choices" }, second, cut), h("h3", {}, "More measures"), list];
  return { whole: h("details", { class: "options" }, h("summary", {}, "Options"), ...rest), offer, asked };
}

/** How the work goes: a bar, words, what is offered, what went wrong. @param {HTMLElement} go @param {Acts} acts */
function work(go, acts) {
  const bar = h("progress", { "aria-label": "Progress" }),
    said = h("span", { class: "said", role: "status" }),
    stop = button("Cancel", acts.cancel),
    line = h("div", { class: "work" }, bar, said, stop);
  const words = h("span", {}),
    accept = h("button", { type: "button" }),
    offered = h("p", { class: "offer", hidden: "" }, words, accept),
    alarm = h("p", { class: "alarm", role: "alert" });
  /** @type {any} */
  let waiting = 0;
  const seen = (element) => element.scrollIntoView({ block: "nearest" });
  /** @param {Work} now */
  const show = ({ busy, share, offer, ...now }) => {
    if (!busy) clearTimeout(waiting);
    waiting = busy ? waiting || setTimeout(seen, SOON, line) : 0;
    line.dataset.busy = String(busy);
    bar.hidden = !busy;
    hide(stop, !busy, go);
    hide(offered, !offer, busy ? stop : go);
    said.textContent = now.said;
    if (share >= 0) bar.value = share;
    else bar.removeAttribute("value");
    words.textContent = offer?.words ?? "";
    accept.hidden = !offer?.name;
    accept.textContent = `Measure ${offer?.name}`;
    accept.onclick = () => acts.measure(offer.name);
    const fresh = now.alarm && alarm.textContent !== now.alarm;
    if (alarm.textContent !== now.alarm) alarm.textContent = now.alarm;
    if (fresh) seen(alarm);
  };
  return { parts: [line, offered, alarm], show };
}
