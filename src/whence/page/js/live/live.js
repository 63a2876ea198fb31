// @ts-check
// The explorer: draws what is there and dispatches what happens; what follows from it is decided in next.js.

import { Refused, about, answer, lensed, measured, netcdf, oneMap, page, reasons, received } from "./api.js";
import { cut } from "../core/data.js";
import { h } from "../core/dom.js";
import { form } from "./form.js";
import { download } from "../core/leave.js";
import { EMPTY, asksOf, awaited, isBefore, isLong, isOpen, keys, longer, next, offer, start, todo } from "./next.js";
import { mount } from "../page.js";
import * as bridge from "../views/bridge.js";
import * as far from "../views/far.js";
import { moved, selected, text } from "../core/state.js";

/** @typedef {import("./next.js").Task} Task */

const NOTHING = "There is nothing to save or to link to; measure the sentence first.";
const WAIT = "The sentence is still being measured; wait for its first picture.";
const BRIEF = 80; // characters that tell a sentence from another

const root = document.body.appendChild(h("main", { class: "live" }));
const brand = [
  h("strong", { class: "wordmark" }, "whence"),
  h("span", {}, "where the information in every token comes from"),
];
const ways = h("span", { class: "ways", role: "group", "aria-label": "Share" });
root.appendChild(h("div", { class: "brand" }, ...brand, ways));
const asking = root.appendChild(h("div", {})),
  apart = root.appendChild(h("p", { class: "apart", role: "status", hidden: "" })),
  shown = root.appendChild(h("div", {}));

/** @type {import("./next.js").Live} */
let state;
let fields,
  view = null,
  drawn = [], // the sentences whose pictures are on the screen
  stopped = false, // whether what is missing will not come
  restored = ""; // the address that was written when a sentence came to nothing
/** @type {{ id: string, stop: AbortController } | null} */
let running = null;

function dispatch(event) {
  const before = state;
  state = next(state, event);
  draw();
  if (state.apart && !before.apart) restore();
  run();
}

// Shows what has changed.
function draw() {
  const { main, edited, other } = state.slots,
    pictures = [main.data, edited.data, other.data];
  if (main.data && pictures.some((data, place) => data !== drawn[place])) {
    const beside = { ...(edited.data && { edited: edited.data }), ...(other.data && { other: other.data }) };
    Object.assign(main.data, { beside });
    drawn = pictures;
    if (view) view.show(main.data);
    else view = mount(shown, main.data, { live: actions, views: { bridge, far } });
    state = next(state, { kind: "drawn" }); // not before: until then a choice is one in the old pictures
    document.title = `${main.data.finding} · whence`;
  }
  if (main.failed !== stopped) view?.render(); // a view may have waited
  stopped = main.failed;
  const task = todo(state),
    said = state.said || (task ? `Measuring ${task.label}` : "");
  fields.show({ busy: task !== null, said, share: state.share, alarm: state.alarm, offer: offer(state) });
  apart.hidden = !state.apart;
  const sentence = cut(view?.state.data.attrs.text ?? "", BRIEF);
  apart.textContent = state.apart ? `The pictures, and what is shared, are still of “${sentence}”.` : "";
  shown.classList.toggle("stale", state.apart);
}

// Asks for what is to be asked for now, and gives up what no longer is.
function run() {
  const task = todo(state),
    id = task && JSON.stringify(task);
  if (running?.id === id) return;
  running?.stop.abort();
  running = task && { id, stop: new AbortController() };
  if (task) work(task, running);
}

/** @param {Task} task @param {typeof running} own */
async function work(task, own) {
  const { signal } = own.stop,
    slot = state.slots[task.slot];
  const told = (report) => own === running && dispatch({ kind: "progress", task, at: performance.now(), ...report });
  try {
    const key = await measured(task.body, { told, signal });
    const data = await result(task, key, slot, signal);
    if (own !== running) return;
    running = null;
    dispatch({ kind: "arrived", task, key, data });
    if (task.body.measures.some((name) => state.known.measures[name].offer)) await learn();
  } catch (error) {
    if (own !== running) return;
    running = null;
    const words = error instanceof Refused ? error.message : `The page failed: ${error.message}`;
    dispatch({ kind: "refused", slot: task.slot, error: words, status: error.status, task });
  }
}

/** @param {Task} task @param {string} key @param {import("./next.js").Slot} slot */
function result({ read, body, far }, key, slot, signal) {
  const map = async () => ({ ...(await oneMap(key, far.split(" ")[1], signal)), key: far });
  const apart = { why: reasons, answer, lens: lensed, map };
  if (read) return apart[read](key, signal);
  const got = Object.fromEntries(body.measures.map((name) => [name, key]));
  return received(keys({ ...slot, got: { ...slot.got, ...got } }), slot.data, signal);
}

// How long it takes is known better now.
async function learn() {
  const known = await about().catch(() => null);
  if (known) dispatch({ kind: "known", known });
}

// Back to the sentence whose pictures are still there; the form keeps what was refused, to be changed.
function restore() {
  const { main, edited, other } = state.slots,
    asked = { ...main.ask, edited: edited.ask?.text, other: other.ask?.model };
  restored = text({ ...asked, ...selected(view.state) }, view.state.data); // with what was chosen meanwhile
  history.replaceState(history.state, "", `#${restored}`);
  view.state.follow(view.state.data);
  view.render();
}

// Measures what the address asks for.
function follow() {
  const asked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  fields.fill(asksOf(state.known, asked).main);
  dispatch({ kind: "address", asked });
}

// What the reader does

const actions = {
  before: () => isBefore(state),
  awaited: (view) => awaited(state, view),
  longer: (view) => longer(state, view),
  measure: (name) => beside({ once: name }),
  get models() {
    return state.known.models.map(({ name }) => name);
  },
  masks: (model) => modelOf(model)?.mask ?? false,
  predicts: (model) => modelOf(model)?.measures.some((name) => state.known.measures[name].positions) ?? false,
  predict: (token) => here({ asked: [...(view.state.asked || "").split(",").filter(Boolean), token].join(",") }),
  ask: (changes) => beside(changes),
  answer: () => ({ ...state.slots.main.answer, open: todo(state) !== null && isOpen(state.slots.main) }),
  can: (model) => ({ answer: modelOf(model)?.causal ?? false, chat: modelOf(model)?.chat ?? false }),
  long: (data) => isLong(state.known, data),
  heads: (model) => modelOf(model)?.heads ?? 0,
  busy: () => todo(state) !== null,
  edit: (changed) => here({ edited: changed }),
  other: (model) => beside({ other: model }),
};

function modelOf(name) {
  return state.known.models.find((model) => model.name === name);
}

function submit() {
  const asked = fields.asked();
  if (!asked.text.trim()) return complain(EMPTY);
  go(moved(view?.state ?? {}, { ...asked, other: view?.state.other }));
}

function more() {
  const { measures, truncate, ...rest } = fields.asked(),
    { ask } = state.slots.main;
  if (["text", "pair", "model"].every((name) => rest[name] === ask?.[name])) beside({ measures, truncate });
  else submit();
}

function beside(changes) {
  if (!view) return;
  Object.assign(view.state, state.slots.main.ask, changes);
  go(view.state.address());
}

// The same for what is asked about the pictures: they may be of the sentence before.
function here(changes) {
  if (isBefore(state)) dispatch({ kind: "note", said: WAIT });
  else beside(changes);
}

// A new place in the history, so that Back brings the last one.
function go(address) {
  if (`#${address}` === location.hash) return follow();
  location.hash = address;
}

function complain(error) {
  dispatch({ kind: "alarm", error: "" }); // said again, it is seen again
  dispatch({ kind: "alarm", error });
}

async function save(how) {
  const { main, edited, other } = state.slots;
  const there = how === "Link" ? main.data : keys(main).length;
  if (!there) return todo(state) ? dispatch({ kind: "note", said: WAIT }) : complain(NOTHING);
  try {
    if (how === "Link") return await copy();
    view.state.save();
    if (how === "netCDF") return download("whence.nc", await netcdf(keys(main)));
    const joined = (slot) => (slot.data ? keys(slot).join(",") : null),
      chosen = text(view.state, view.state.data, false);
    const reasons = ({ apart }) => Object.keys(apart).find((name) => state.known.measures[name].read === "why"),
      why = (slot) => slot.apart[reasons(slot) ?? ""] ?? null,
      results = { main: joined(main), edited: joined(edited), other: joined(other) },
      wanted = { ...results, why: why(main), edited_why: edited.data ? why(edited) : null, state: chosen };
    download("whence.html", await page(wanted));
  } catch (error) {
    if (error.status === 410) dispatch({ kind: "gone" });
    complain(error.message);
  }
}

async function copy() {
  Object.assign(view.state, state.slots.main.ask);
  const address = `${location.origin}${location.pathname}#${text(view.state, view.state.data)}`;
  history.replaceState(history.state, "", address);
  const copied = await navigator.clipboard.writeText(address).then(
    () => "The link is copied.",
    () => "The address bar has the link.",
  );
  dispatch({ kind: "note", said: copied });
}

async function begin() {
  state = start(await about());
  const cancel = () => dispatch({ kind: "cancelled" });
  fields = form(asking, ways, state.known, {
    ...{ submit, cancel, save, more, measure: actions.measure },
    example: ({ text, model }) => go(moved(view?.state ?? {}, { text, model })),
  });
  addEventListener("hashchange", follow);
  addEventListener("popstate", () => {
    if (restored && location.hash === `#${restored}`) follow(); // written by `restore`: no hashchange
  });
  addEventListener("pagehide", () => running?.stop.abort());
  follow();
}

begin().catch((error) => asking.append(h("p", { class: "alarm", role: "alert" }, error.message)));
