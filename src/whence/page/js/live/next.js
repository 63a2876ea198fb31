// @ts-check
// What the explorer is doing: one record, and one pure function from an event to the next record.

import { said } from "../core/data.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {{ model: string, text: string, pair: string, measures: string, truncate: string, once: string,
 *   asked: string, rather: string, chat: string, generate: string, spans: string, far: string }} Ask  as it stands in
 *   the address; `far` is a layer and a head
 * @typedef {{ about: string, slow: boolean, stage: number | null, most: number | null, offer: string, refusal: string,
 *   options: Record<string, any>, positions: boolean, read: string, view: string }} Measure
 * @typedef {{ name: string, heads: number, measures: string[], mask: boolean, causal: boolean, chat: boolean,
 *   pace: number }} Model
 * @typedef {{ name: string, text: string, about: string, causal: boolean, elsewhere: string }} Example  `elsewhere` is
 *   what it is called beside those of the other kind of model
 * @typedef {{ models: Model[], measures: Record<string, Measure>, examples: Example[], seconds: number }} Known  what
 *   the server says it can do; `seconds` that a computation may take
 * @typedef {{ tokens: number[], text: string, ended: boolean }} Answer  what a decoder said
 * @typedef {{ ask: Ask | null, got: Record<string, string>, apart: Record<string, string>,
 *   bodies: Record<string, string>, answer: Answer, data: Data | null, failed: boolean, again: boolean }} Slot
 *   one sentence; `got` has the key of the result that holds a measure, `apart` of one that is read by itself, `bodies`
 *   the requests that may have to be made anew
 * @typedef {{ main: Slot, edited: Slot, other: Slot }} Slots
 * @typedef {{ slot: keyof Slots, body: Record<string, any>, label: string, read: string, far: string }} Task  a
 *   request, what it is called, and where its result is read
 * @typedef {object} Live
 * @property {Known} known
 * @property {Slots} slots  the sentence, the changed sentence, the sentence in another model
 * @property {Slots | null} before  those whose pictures are shown until the first of a new sentence is there
 * @property {string} drawn  the sentence the pictures are of
 * @property {boolean} apart  whether the form holds another sentence, which was refused or given up
 * @property {string} said  how the work goes, or what was done
 * @property {number} share  of the work that is done; negative when nobody knows
 * @property {{ done: number, at: number } | null} began  the first report of the task under way
 * @property {string} alarm  what went wrong
 */

/** @type {(keyof Slots)[]} */
const SLOTS = ["main", "edited", "other"];
export const EMPTY = "The text is empty; give at least one word.";
const MOST_POSITIONS = 8,
  MOST_CHOSEN = 4;

/** @type {Answer} */
const SILENT = { tokens: [], text: "", ended: false };
/** @type {Slot} */
const NONE = {
  ...{ ask: null, got: {}, apart: {}, bodies: {}, answer: SILENT },
  ...{ data: null, failed: false, again: false },
};
const AT_ONCE = 8; // tokens of an answer, so that it can be seen as it grows, and be stopped
const SILENCE = { said: "", share: -1, began: null, alarm: "" };

/** @param {Known} known @returns {Live} */
export function start(known) {
  const slots = { main: NONE, edited: NONE, other: NONE };
  return { known, slots, before: null, drawn: "", apart: false, ...SILENCE };
}

/** What each event does. @type {Record<string, (state: Live, event: any) => Live>} */
const EVENTS = {
  known: (state, { known }) => ({ ...state, known }),
  address: followed,
  progress: (state, report) => ({ ...state, ...told(state, report) }),
  arrived,
  drawn: (state) => ({ ...state, drawn: sentence(state.slots.main.ask), apart: false }),
  refused,
  cancelled: (state) => {
    const failed = (slot) => ({ ...slot, failed: slot.failed || slot.ask !== null });
    const { main, edited, other } = state.slots;
    const slots = { main: failed(main), edited: failed(edited), other: failed(other) };
    return settled({ ...state, slots, said: "Cancelled." });
  },
  gone: (state) => {
    const slots = { ...state.slots };
    for (const name of SLOTS) slots[name] = { ...slots[name], got: {}, apart: {}, bodies: {}, failed: true };
    return { ...state, slots };
  },
  note: (state, { said }) => ({ ...state, said }),
  alarm: (state, { error }) => ({ ...state, alarm: error }),
};

/** @param {Live} state @param {{ kind: keyof typeof EVENTS } & Record<string, any>} event @returns {Live} */
export function next(state, event) {
  return EVENTS[event.kind](state, event);
}

/** What an address asks for, slot by slot. @param {Known} known @param {Record<string, string>} asked */
export function asksOf({ models, examples }, asked) {
  const known = (name) => models.some((model) => model.name === name),
    model = models.find(({ name }) => name === asked.model) ?? models[0],
    first = examples.find(({ causal }) => causal === model.causal)?.text ?? "",
    main = askOf({ text: first, ...asked, model: model.name });
  return {
    main,
    edited: asked.edited ? { ...main, text: asked.edited, asked: "" } : null,
    other: known(asked.other) ? { ...main, model: asked.other, asked: "" } : null,
  };
}

/** Another address: what it asks for is measured, as far as it is not there. */
function followed(state, { asked }) {
  const asks = asksOf(state.known, asked),
    { main } = asks,
    slots = { ...state.slots },
    same = sentence(slots.main.ask) === sentence(main);
  for (const name of SLOTS) slots[name] = filled(same || name === "main" ? slots[name] : NONE, asks[name]);
  const pictures = !state.slots.main.data ? {} : same ? { apart: false } : { before: state.slots };
  const after = { ...state, ...SILENCE, ...pictures, slots };
  return main.text.trim() ? after : refused(after, { slot: "main", error: EMPTY, status: 422 });
}

/** @param {any} asked @returns {Ask} */
function askOf({ model, text, pair = "", measures = "", truncate = "", once = "", asked = "", ...more }) {
  const { rather = "", chat = "", generate = "", spans = "", far = "" } = more;
  return { model, text, pair, measures, truncate, once, asked, rather, chat, generate, spans, far };
}

/** The slot of what is asked; what is there of the same sentence stays. @param {Slot} slot @param {Ask | null} ask */
function filled(slot, ask) {
  if (!ask) return NONE;
  if (!slot.failed && JSON.stringify(slot.ask) === JSON.stringify(ask)) return slot;
  return sentence(slot.ask) === sentence(ask) ? { ...slot, ask, failed: false } : { ...NONE, ask };
}

/** What tells a sentence from another, whatever is measured of it. @param {Ask | null} ask */
export function sentence(ask) {
  return ask ? JSON.stringify([ask.model, ask.text, ask.pair, ask.truncate, ask.chat]) : "";
}

/** Whether the pictures are still of the sentence before. @param {Live} state */
export function isBefore({ drawn, slots }) {
  return drawn !== sentence(slots.main.ask);
}

/** A result is there. */
function arrived(state, { task, key, data }) {
  const { slot: name, body, read } = task,
    slot = state.slots[name],
    found = Object.fromEntries(body.measures.map((measure) => [measure, key])),
    bodies = bodyOf(slot, task);
  const whole = read
    ? { ...slot, bodies, apart: { ...slot.apart, ...found }, ...RESULTS[read](slot, data) }
    : { ...slot, bodies, got: { ...slot.got, ...found }, data };
  const before = name === "main" ? null : state.before;
  const after = { ...state, ...SILENCE, alarm: state.alarm, before, slots: { ...state.slots, [name]: whole } };
  const done = todo(after)?.slot !== name;
  return done ? { ...after, slots: { ...after.slots, [name]: { ...whole, again: false } } } : after;
}

/** What comes of a result that is read by itself. @type {Record<string, (slot: Slot, data: any) => Partial<Slot>>} */
const RESULTS = {
  why: ({ data }, why) => ({ data: { ...data, why } }),
  answer: (_, answer) => ({ answer }),
  lens: ({ data }, lensed) => ({ data: { ...data, lensed } }),
  map: ({ data }, far) => ({ data: { ...data, far } }),
};

/** @param {Slot} slot @param {Task} task */
function bodyOf(slot, { body, far }) {
  return { ...slot.bodies, ...Object.fromEntries(body.measures.map((measure) => [measure, noted(body, far)])) };
}

/** What tells a request from another. */
function noted(body, far) {
  return JSON.stringify(far ? { ...body, far } : body);
}

/** The server said no; what it has forgotten is measured once again, and what is read by itself is done without. */
function refused(state, { slot: name, error, status, task = null }) {
  const slot = state.slots[name],
    again = status === 410 && !slot.again;
  if (task?.read && status === 422) {
    const without = { ...slot, bodies: bodyOf(slot, task), answer: { ...slot.answer, ended: true } };
    return { ...state, ...SILENCE, alarm: error, slots: { ...state.slots, [name]: without } };
  }
  const none = { got: {}, apart: {}, bodies: {} };
  const changed = again ? { ...slot, ...none, again: true } : { ...slot, failed: true };
  const after = { ...state, slots: { ...state.slots, [name]: changed } };
  return again ? after : settled({ ...after, ...SILENCE, alarm: error });
}

/** Back to the sentence whose pictures are still there, when nothing came of the new one. @param {Live} state */
function settled(state) {
  const { main } = state.slots;
  if (!main.failed || main.data || !state.before) return state;
  return { ...state, slots: state.before, before: null, apart: true };
}

/** Keys of the results of a slot. @param {Slot} slot */
export function keys(slot) {
  return [...new Set(Object.values(slot.got))];
}

/**
 * What is to be asked for now; null when everything is there or was refused.
 * @param {Live} state
 * @returns {Task | null}
 */
export function todo(state) {
  for (const slot of SLOTS) {
    const { ask, failed } = state.slots[slot];
    if (failed && slot === "main") return null;
    const task = ask && !failed && following(state.known, state.slots[slot], slot === "main");
    if (task) return { slot, ...task };
  }
  return null;
}

/** The next request for a slot: measures of one stage, then those that were asked for, one by one. */
function following(known, slot, main) {
  const { ask, got, data } = slot,
    given = known.models.find(({ name }) => name === ask.model).measures,
    wanted = wantedOf(ask).filter((name) => given.includes(name)),
    places = data ? positions(ask, data) : [];
  const row = (name) => known.measures[name];
  const body = (measures) => request(known, slot, measures, places);
  const fresh = (name) => {
    if (row(name).read === "answer") return main && isOpen(slot);
    if (row(name).read === "map")
      return main && isFar(row(name), slot) && noted(body([name]), ask.far) !== slot.bodies[name];
    return row(name).positions ? JSON.stringify(body([name])) !== slot.bodies[name] : !(name in got);
  };
  const unasked = (name) => row(name).read === "map" || !past(row(name), data),
    fits = (name) => (row(name).positions ? places.length > 0 : wanted.includes(name) || unasked(name));
  const numbers = new Set(given.map((name) => row(name).stage ?? Infinity)),
    order = [...numbers].filter(Number.isFinite).sort((one, other) => one - other),
    staged = order.map((stage) => given.filter((name) => row(name).stage === stage));
  for (const names of [...staged, ...wanted.map((name) => [name])]) {
    const measures = names.filter((name) => fits(name) && fresh(name));
    const { read = "" } = measures.length ? row(measures[0]) : {},
      far = read === "map" ? ask.far : "";
    if (measures.length) return { body: body(measures), label: far ? farLabel(far) : labelled(measures), read, far };
  }
  return null;
}

/** Measures that were asked for. @param {Ask} ask */
function wantedOf(ask) {
  return [...ask.measures.split(","), ask.once].filter(Boolean);
}

/** Whether a text, as far as it is known, is longer than what is measured unasked. */
function past({ most }, data) {
  return most !== null && data !== null && data.tokens.length > most;
}

function request(known, slot, measures, places) {
  const { model, text, pair, truncate } = slot.ask,
    rows = measures.map((name) => known.measures[name]),
    where = rows.some((row) => row.positions) ? { positions: places } : {};
  const body = { model, text, measures, truncate: truncate === "1", ...(pair ? { pair } : {}), ...where };
  return Object.assign(body, ...rows.map((row) => row.options), FIELDS[rows[0].read]?.(slot) ?? {});
}

/** Whether a map of one layer is wanted, of a text that is too long for all. @param {Measure} row @param {Slot} slot */
function isFar(row, { ask, data }) {
  return Boolean(ask?.far) && past(row, data) && data.far?.key !== ask.far;
}

function farLabel(far) {
  return `the map of layer ${far.split(" ")[0]}`;
}

/** Whether a text is too long for the attention of all layers. @param {Known} known @param {Data} data */
export function isLong({ models, measures }, data) {
  const given = models.find(({ name }) => name === data.attrs.model)?.measures ?? [];
  return given.some((name) => measures[name].read === "map" && past(measures[name], data));
}

/** What a request for a prediction says besides. @type {Record<string, (slot: Slot) => Record<string, any>>} */
const FIELDS = {
  map: (slot) => ({ layer: Number(slot.ask.far.split(" ")[0]) }),
  answer: (slot) => ({ chat: slot.ask.chat === "1", answer: answerOf(slot), more: more(slot) }),
  lens: ({ ask, data }) => {
    const all = positions(ask, data),
      chosen = ask.asked
        .split(",")
        .filter(Boolean)
        .map(Number)
        .filter((place) => all.includes(place));
    return { positions: (chosen.length ? chosen : all).slice(-1) }; // the one that was chosen last
  },
  why: (slot) => {
    const { chat, rather, spans } = slot.ask,
      answer = answerOf(slot);
    return {
      ...{
        chat: chat === "1",
        rather: rather === "",
        ...(Number(rather) >= 0 && rather ? { against: Number(rather) } : {}),
      },
      ...{ ...(answer.length ? { answer } : {}), ...(spans ? { spans } : {}) },
    };
  },
};

/** The answer as far as it is wanted. @param {Slot} slot @returns {number[]} */
function answerOf({ ask, answer }) {
  return answer.tokens.slice(0, Number(ask?.generate) || 0);
}

/** Whether more of an answer is wanted than there is. @param {Slot} slot */
export function isOpen(slot) {
  return !slot.answer.ended && more(slot) > 0;
}

function more({ ask, answer }) {
  return Math.min((Number(ask?.generate) || 0) - answer.tokens.length, AT_ONCE);
}

function labelled(names) {
  return names.length > 2 ? `${names.slice(0, 2).join(", ")} …` : names.join(" and ");
}

/** Where the head is looked at: where it was asked for, at masks, or at the end of what a decoder read. */
export function positions(ask, { tokens, causal }) {
  const all = [...tokens.keys()],
    numbers = ask.asked.split(",").filter(Boolean).map(Number),
    chosen = numbers.filter((place) => place in tokens);
  const masks = all.filter((place) => /^[[<]mask[\]>]$/i.test(tokens[place].text));
  const usual = causal ? all.filter((place) => !tokens[place].special).slice(-1) : masks;
  return [...new Set([...chosen.slice(-MOST_CHOSEN), ...usual])].slice(0, MOST_POSITIONS);
}

/**
 * The measure that a view waits for, as long as it is on its way; null when it is there or will not come.
 * @param {Live} state @param {string} view
 */
export function awaited({ known, slots: { main } }, view) {
  const name = viewedBy(known, main, view);
  if (!name || main.failed || past(known.measures[name], main.data)) return null;
  const { positions: placed, read } = known.measures[name];
  if (placed && !positions(main.ask, main.data).length) return null;
  return read && name in main.bodies ? null : name;
}

/**
 * The measure that a view would be drawn by if the text were shorter, and that may be asked for; null without one.
 * @param {Live} state @param {string} view
 */
export function longer({ known, slots: { main } }, view) {
  const name = viewedBy(known, main, view);
  return name && past(known.measures[name], main.data) && !wantedOf(main.ask).includes(name) ? name : null;
}

/** The measure that a view is drawn by, as long as it is not there. @param {Known} known @param {Slot} main */
function viewedBy(known, main, view) {
  const given = known.models.find(({ name }) => name === main.ask?.model)?.measures ?? [],
    name = given.find((one) => known.measures[one].view === view);
  return name && main.data && !(name in main.got) ? name : null;
}

/** How the work goes, in words; `at` is the time in milliseconds. */
function told(state, { task, waiting, busy, done = 0, of = 0, at }) {
  const measuring = `Measuring ${task.label}`;
  if (busy) return { said: `The server is busy; trying again in ${busy} s`, share: -1 };
  if (waiting > 0) return { said: `Waiting: ${waiting} before this`, share: -1 };
  if (!of) return { said: measuring, share: -1 };
  const began = state.began ?? { done, at },
    seconds = ((at - began.at) / 1000 / (done - began.done)) * (of - done),
    left = Number.isFinite(seconds) && seconds > 5 ? `, ${duration(seconds)} left` : "";
  return { said: `${measuring}: ${Math.floor((100 * done) / of)}\u00a0%${left}`, share: done / of, began };
}

export function duration(seconds) {
  if (seconds < 50) return `about ${Math.ceil(seconds / 10) * 10} s`;
  return seconds < 90 * 60 ? `about ${Math.round(seconds / 60)} min` : `about ${Math.round(seconds / 3600)} hours`;
}

/**
 * What takes too long to be measured unasked, with the sentence that offers it; null when there is nothing. What takes
 * longer than a computation may has no name, only the sentence.
 * @param {Live} state
 */
export function offer({ known, slots: { main } }) {
  const model = known.models.find(({ name }) => name === main.ask?.model);
  if (!main.data || !model) return null;
  const { length } = main.data.tokens,
    busy = main.failed ? [] : wantedOf(main.ask);
  const missing = model.measures.filter((one) => !(one in main.got) && !busy.includes(one)),
    name = missing.find((one) => known.measures[one].offer && past(known.measures[one], main.data));
  if (!name) return null;
  const seconds = model.pace * length ** 2,
    { offer: can, refusal } = known.measures[name],
    words = {
      tokens: length.toLocaleString("en"),
      time: duration(seconds),
      most: duration(known.seconds).slice("about ".length),
    };
  return seconds > known.seconds ? { name: "", words: said(refusal, words) } : { name, words: said(can, words) };
}
