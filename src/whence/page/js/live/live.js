// The explorer: asks for measures, quick ones first, and shows what is there while the rest is under way.

import { Refused, about, measured, netcdf, page, received } from "./api.js";
import { h } from "../core/dom.js";
import { USUAL, form } from "./form.js";
import { download } from "../core/leave.js";
import { mount } from "../page.js";
import { moved, selected, text } from "../core/state.js";

const FIRST = "Paris is the capital of [MASK].";
const STAGES = [
  ["attention", "mixing"],
  ["norms", "effective", "null", "value_rank"],
];
const AT_ONCE = 40; // tokens up to which contributions are measured unasked
const MANY_HEADS = 300; // tokens from which effective and null attention, large and seldom needed, wait to be asked for
const ERROR = 0.05; // of contributions, relative; hovering shows it
const EMPTY = "The text is empty; give at least one word.";
const NOTHING = "There is nothing to save or to link to; measure the sentence first.";
const WAIT = "The sentence is still being measured; wait for its first picture.";
const BRIEF = 80; // characters that tell a sentence from another

const root = document.body.appendChild(h("main", { class: "live" }));
root.appendChild(
  h(
    "div",
    { class: "brand" },
    h("strong", {}, "whence"),
    h("span", {}, "where the information in every token comes from"),
  ),
);
const asking = root.appendChild(h("div", {})),
  apart = root.appendChild(h("p", { class: "apart", role: "status", hidden: "" })),
  shown = root.appendChild(h("div", {}));
const slots = { main: empty(), edited: empty(), other: empty() };
let known,
  fields,
  view = null,
  under = 0; // sentences that are being measured
let drawn = ""; // the sentence the pictures are of
let last = null; // the slots and the state of the sentence shown before the one under way

function empty() {
  return { keys: [], data: null, stop: new AbortController(), ask: "", head: "", failed: false, again: false };
}

// What was asked for in the address.
function hash() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

async function start() {
  known = await about();
  fields = form(asking, known, { submit, cancel, save, more, contribute });
  addEventListener("hashchange", follow);
  addEventListener("popstate", () => {
    if (location.hash === `#${last?.address}`) follow();
  }); // Back to the address that `restore` wrote: no hashchange
  addEventListener("pagehide", () => Object.values(slots).forEach((slot) => slot.stop.abort()));
  await follow();
}

// Measures what the address asks for, as far as it is not there.
async function follow() {
  const asked = { text: FIRST, ...hash() };
  if (!known.models.some(({ name }) => name === asked.model)) asked.model = known.models[0].name;
  fields.fill(asked);
  fields.complain("");
  const main = {
    model: asked.model,
    text: asked.text,
    pair: asked.pair ?? "",
    measures: asked.measures ?? "",
    truncate: asked.truncate ?? "",
    once: asked.once ?? "",
    asked: asked.asked ?? "",
  };
  const rest = [
    ["edited", asked.edited ? { ...main, text: asked.edited, asked: "" } : null],
    [
      "other",
      known.models.some(({ name }) => name === asked.other) ? { ...main, model: asked.other, asked: "" } : null,
    ],
  ];
  if (!(await fill("main", main))) return;
  for (const [name, ask] of rest) await (ask ? fill(name, ask) : clear(name));
}

function clear(name) {
  slots[name].stop.abort();
  slots[name] = empty();
  draw();
}

// Fills a slot stage by stage; false when it was given up or refused.
async function fill(name, ask) {
  const described = JSON.stringify(ask);
  const before = slots[name],
    same = before.ask && sentenceOf(before.ask) === sentenceOf(described);
  const there = name === "main" && before.data;
  if (there && same) tellApart(false);
  if (before.ask === described && !before.failed) return true;
  if (there) last = { slots: { ...slots }, state: { ...view.state, ...JSON.parse(before.ask) } };
  before.stop.abort();
  const slot = (slots[name] = {
    ...empty(),
    ask: described,
    keys: same ? before.keys : [],
    head: same ? before.head : "",
    data: same ? before.data : null,
    again: before.again,
  });
  if (name === "main" && !same)
    for (const other of ["edited", "other"]) {
      slots[other].stop.abort();
      slots[other] = empty();
    }
  fields.working("Measuring", -1);
  suggest();
  under += 1;
  try {
    if (!ask.text.trim()) throw new Refused(EMPTY, 422);
    for (const stage of stages(ask)) await advance(slot, ask, stage);
    slot.again = false;
    return true;
  } catch (error) {
    return failed(name, slot, error);
  } finally {
    under -= 1;
    if (!under) fields.working("");
    suggest();
  }
}

function sentenceOf(described) {
  const { measures, once, asked, ...rest } = JSON.parse(described);
  return JSON.stringify(rest);
}

function failed(name, slot, error) {
  slot.failed = true;
  if (slots[name] !== slot) return false; // something newer is under way
  if (error instanceof Refused && error.status === 410 && !slot.again) {
    Object.assign(slot, { keys: [], again: true });
    return follow();
  }
  if (!slot.stop.signal.aborted)
    fields.complain(error instanceof Refused ? error.message : `The page failed: ${error.message}`);
  else setTimeout(() => fields.note("Cancelled."));
  if (name === "main" && !slot.data && last) restore();
  else draw(); // without the changed sentence shown before
  return false;
}

// Back to the sentence whose pictures are still there; the form keeps what was refused, to be changed.
function restore() {
  Object.assign(slots, last.slots);
  last.address = text({ ...last.state, ...selected(view.state) }, view.state.data); // with what was chosen meanwhile
  history.replaceState(history.state, "", `#${last.address}`);
  view.state.follow(view.state.data);
  view.render();
  tellApart(true);
}

// Says which sentence the pictures are of when it is not the one in the form.
function tellApart(stale) {
  const written = view?.state.data.attrs.text ?? "";
  apart.hidden = !stale;
  apart.textContent = stale
    ? `The pictures, and what Save gives, are still of “${written.length > BRIEF ? `${written.slice(0, BRIEF)}…` : written}”.`
    : "";
  shown.classList.toggle("stale", stale);
}

// Lists of measures; what depends on the length is known when the first is there.
function* stages(ask) {
  const given = known.models.find(({ name }) => name === ask.model).measures;
  const wanted = [...ask.measures.split(","), ask.once].filter((name) => given.includes(name));
  const only = (names) => names.filter((name) => given.includes(name));
  yield () => only(STAGES[0]);
  yield ({ tokens }) =>
    only(STAGES[1]).filter(
      (name) => tokens.length <= MANY_HEADS || !["effective", "null"].includes(name) || wanted.includes(name),
    );
  yield (data) => (positions(ask, data).length ? only(["head"]) : []);
  yield ({ tokens }) => (tokens.length <= AT_ONCE || wanted.includes("contribution") ? only(["contribution"]) : []);
  for (const name of wanted) if (!USUAL.includes(name) && name !== "contribution") yield () => [name];
}

// Where the head is looked at: where it was asked for, at masks, or at the end of what a decoder read.
function positions(ask, { tokens, causal }) {
  const all = [...tokens.keys()],
    chosen = ask.asked
      .split(",")
      .filter(Boolean)
      .map(Number)
      .filter((place) => place in tokens);
  const masks = all.filter((place) => /^[[<]mask[\]>]$/i.test(tokens[place].text));
  const usual = causal ? all.filter((place) => !tokens[place].special).slice(-1) : masks;
  return [...new Set([...chosen.slice(-4), ...usual])].slice(0, 8);
}

async function advance(slot, ask, stage) {
  const { signal } = slot.stop,
    names = stage(slot.data ?? { tokens: [] });
  if (!names.length) return;
  const label = names.length > 2 ? `${names.slice(0, 2).join(", ")} …` : names.join(" and ");
  fields.working(`Measuring ${label}`, -1);
  const left = remaining();
  const told = ({ waiting, busy, done, of }) => {
    if (slot.stop.signal.aborted) return;
    if (busy) fields.working(`The server is busy; trying again in ${busy} s`, -1);
    else if (waiting >= 0) fields.working(waiting ? `Waiting: ${waiting} before this` : `Measuring ${label}`, -1);
    else
      fields.working(
        `Measuring ${label}${of ? `: ${Math.floor((100 * done) / of)}\u00a0%${left(done, of)}` : ""}`,
        of ? done / of : -1,
      );
  };
  const body = {
    model: ask.model,
    text: ask.text,
    measures: names,
    ...(ask.pair ? { pair: ask.pair } : {}),
    truncate: ask.truncate === "1",
    ...(names.includes("contribution") ? { error: ERROR } : {}),
    ...(names.includes("head") ? { positions: positions(ask, slot.data) } : {}),
  };
  const key = await measured(body, { told, signal });
  if (slot.keys.includes(key)) return;
  const again = names.includes("head"); // positions are asked for anew
  const keys = [...slot.keys.filter((one) => !again || one !== slot.head), key];
  if (names.includes("contribution")) known = await about(); // how long it takes is known better now
  const data = await received(keys, slot.data, signal);
  signal.throwIfAborted();
  slot.keys = keys;
  if (again) slot.head = key;
  slot.data = data;
  draw();
}

// Says how long it will still take, from how fast it went since the first report.
function remaining() {
  let first = null;
  return (done, of) => {
    first ??= { done, at: performance.now() };
    const seconds = ((performance.now() - first.at) / 1000 / (done - first.done)) * (of - done);
    return Number.isFinite(seconds) && seconds > 5 ? `, ${duration(seconds)} left` : "";
  };
}

function duration(seconds) {
  return seconds < 50 ? `about ${Math.ceil(seconds / 10) * 10} s` : `about ${Math.round(seconds / 60)} min`;
}

// Offers contribution where it takes too long to be measured unasked.
function suggest() {
  const { data, ask, failed: ended } = slots.main,
    asked = JSON.parse(ask || "{}");
  const { pace, measures } = known.models.find(({ name }) => name === asked.model) ?? { measures: [] };
  const wanted =
    data && data.tokens.length > AT_ONCE && measures.includes("contribution") && !data.variables.contribution;
  const busy = `${asked.measures},${asked.once}`.split(",").includes("contribution") && !ended;
  fields.suggest(
    wanted && !busy
      ? `Contribution, from the input through all layers, is not measured unasked for more than ${AT_ONCE} tokens: ${data.tokens.length} take ${duration(pace * data.tokens.length ** 2)}.`
      : "",
  );
}

function draw() {
  const data = slots.main.data;
  if (!data) return;
  data.beside = Object.fromEntries(
    ["edited", "other"].filter((name) => slots[name].data).map((name) => [name, slots[name].data]),
  );
  if (!view) view = mount(shown, data, { live: actions });
  else view.show(data);
  drawn = sentenceOf(slots.main.ask);
  tellApart(false);
  last = null;
  document.title = `${data.finding} · whence`;
}

// What the reader does

const actions = {
  before: () => drawn !== sentenceOf(slots.main.ask),
  get models() {
    return known.models.map(({ name }) => name);
  },
  masks: (model) => known.models.find(({ name }) => name === model)?.mask ?? false,
  predicts: (model) => known.models.find(({ name }) => name === model)?.measures.includes("head") ?? false,
  predict: (token) => here({ asked: [...(view.state.asked || "").split(",").filter(Boolean), token].join(",") }),
  edit: (changed) => here({ edited: changed }),
  other: (model) => beside({ other: model }),
};

function submit() {
  const asked = fields.asked();
  if (!asked.text.trim()) return fields.complain(EMPTY);
  go(moved(view?.state ?? {}, { ...asked, other: view?.state.other }));
}

function more() {
  const { measures, truncate, ...rest } = fields.asked(),
    main = JSON.parse(slots.main.ask || "{}");
  if (["text", "pair", "model"].every((name) => rest[name] === main[name])) beside({ measures, truncate });
  else submit();
}

function contribute() {
  beside({ once: "contribution" });
}

function beside(changes) {
  if (!view) return;
  Object.assign(view.state, JSON.parse(slots.main.ask), changes);
  go(view.state.address());
}

// The same for what is asked about the pictures: they may be of the sentence before.
function here(changes) {
  if (actions.before()) fields.note(WAIT);
  else beside(changes);
}

// A new place in the history, so that Back brings the last one.
function go(next) {
  if (`#${next}` === location.hash) return follow();
  location.hash = next;
}

function cancel() {
  for (const slot of Object.values(slots)) slot.stop.abort();
}

async function save(how) {
  const there = how === "Link" ? slots.main.data : slots.main.keys.length;
  if (!there) return under ? fields.note(WAIT) : fields.complain(NOTHING);
  try {
    if (how === "Link") return await copy();
    view.state.save();
    const keys = (name) => (slots[name].data ? slots[name].keys.join(",") : null);
    if (how === "netCDF") return download("whence.nc", await netcdf(slots.main.keys));
    download(
      "whence.html",
      await page({
        main: keys("main"),
        edited: keys("edited"),
        other: keys("other"),
        state: text(view.state, view.state.data, false),
      }),
    );
  } catch (error) {
    if (error.status === 410) for (const slot of Object.values(slots)) Object.assign(slot, { keys: [], failed: true }); // Measure begins anew
    fields.complain(error.message);
  }
}

async function copy() {
  Object.assign(view.state, JSON.parse(slots.main.ask));
  const address = `${location.origin}${location.pathname}#${text(view.state, view.state.data)}`;
  history.replaceState(history.state, "", address);
  await navigator.clipboard.writeText(address).then(
    () => fields.note("The link is copied."),
    () => fields.note("The address bar has the link."),
  );
}

start().catch((error) => asking.append(h("p", { class: "alarm", role: "alert" }, error.message)));
