// @ts-check
// The explorer as a record: what it asks for, shows and says after any order of events.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EMPTY, asksOf, duration, isBefore, isLong, keys, next } from "../../../src/whence/page/js/live/next.js";
import { awaited, longer, offer, positions, start, todo } from "../../../src/whence/page/js/live/next.js";

const row = (more) => ({
  about: "",
  slow: false,
  stage: null,
  most: null,
  offer: "",
  options: {},
  positions: false,
  view: "",
  ...more,
});
const measures = {
  first: row({ stage: 0 }),
  large: row({ stage: 1, most: 5 }),
  small: row({ stage: 1 }),
  places: row({ stage: 2, positions: true }),
  long: row({
    stage: 3,
    most: 3,
    view: "flow",
    offer: "{tokens} take {time}.",
    refusal: "{time} of {most}",
    options: { error: 0.05 },
  }),
  seldom: row({}),
  layer: row({ stage: 0.5, most: 3, read: "map" }),
};
/** @type {any} */
const known = {
  measures,
  examples: [],
  seconds: 600,
  models: ["one", "two"].map((name) => ({ name, measures: Object.keys(measures), mask: true, pace: 1 })),
};
const tokens = (text) => text.split(" ").map((word) => ({ text: word, special: word === "[SEP]" }));

/** What a server would answer. */
function answered(state, task = todo(state)) {
  const data = { tokens: tokens(task.body.text), causal: false };
  return next(state, { kind: "arrived", task, key: `${task.body.text} ${task.body.measures}`, data });
}

/** Until nothing is left to ask for; what was asked for on the way. */
function finished(state) {
  const asked = [];
  for (let task = todo(state); task; task = todo(state)) {
    asked.push(task.body.measures.join("+"));
    state = next(answered(state, task), { kind: "drawn" });
    assert.ok(asked.length < 20);
  }
  return { state, asked };
}

const at = (state, asked) => next(state, { kind: "address", asked });
const short = at(start(known), { text: "a b", model: "two" });
const shown = finished(short).state;

test("stages come one after the other, and what waits to be asked for is not measured", () => {
  assert.deepEqual(finished(short).asked, ["first", "large+small", "long"]);
  assert.deepEqual(finished(at(start(known), { text: "a b c d e f" })).asked, ["first", "small"]);
  assert.deepEqual(finished(at(start(known), { text: "a b c d", measures: "seldom,none" })).asked, [
    ...["first", "large+small", "seldom"],
  ]);
  assert.deepEqual(finished(at(start(known), { text: "a [MASK]" })).asked, ["first", "large+small", "places", "long"]);
});

test("a view waits for its measure as long as that is on its way", () => {
  const first = answered(short);
  assert.equal(awaited(short, "flow"), null); // nothing is there to be drawn
  assert.equal(awaited(first, "flow"), "long");
  assert.equal(awaited(first, "maps"), null);
  assert.equal(awaited(shown, "flow"), null);
  assert.equal(awaited(next(first, { kind: "cancelled" }), "flow"), null);
  assert.equal(awaited(answered(at(start(known), { text: "a b c d" })), "flow"), null); // too long to be measured
  const without = { ...known, models: known.models.map((model) => ({ ...model, measures: ["first"] })) };
  assert.equal(awaited(answered(at(start(without), { text: "a b" })), "flow"), null);
});

test("a request says all that a result depends on", () => {
  const pair = at(start(known), { text: "a", pair: "b", truncate: "1", model: "one" });
  assert.deepEqual(todo(pair).body, { model: "one", text: "a", pair: "b", truncate: true, measures: ["first"] });
  const long = answered(answered(short));
  assert.deepEqual(todo(long).body.error, 0.05);
  assert.equal(at(start(known), { model: "none" }).slots.main.ask.model, "one"); // as when it is not named
});

test("more measures of the same sentence ask for what is missing alone", () => {
  const more = at(shown, { text: "a b", model: "two", measures: "seldom" });
  assert.deepEqual(finished(more).asked, ["seldom"]);
  assert.deepEqual(finished(at(shown, { text: "a b", model: "two" })).asked, []);
  assert.equal(more.slots.main.data, shown.slots.main.data);
});

test("where the head is looked at can change, and its old result is given up", () => {
  const { state } = finished(at(start(known), { text: "a [MASK] c" })),
    again = at(state, { text: "a [MASK] c", asked: "2" });
  assert.deepEqual(todo(again).body.positions, [2, 1]);
  const before = state.slots.main.got.places;
  const { state: after, asked } = finished(next(again, { kind: "note", said: "" }));
  assert.deepEqual(asked, ["places"]);
  assert.equal(keys(after.slots.main).length, keys(state.slots.main).length);
  assert.ok(before);
});

test("positions: those asked for, masks, or the end of what a decoder read", () => {
  const ask = { ...asksOf(known, { text: "" }).main };
  assert.deepEqual(positions(ask, { tokens: tokens("a [MASK] b <mask>"), causal: false }), [1, 3]);
  assert.deepEqual(positions(ask, { tokens: tokens("a b [SEP]"), causal: true }), [1]);
  assert.deepEqual(positions({ ...ask, asked: "0,9,2" }, { tokens: tokens("a [MASK] b"), causal: false }), [0, 2, 1]);
  assert.equal(
    positions({ ...ask, asked: "0,1,2,3,4,5" }, { tokens: tokens("a b c d e f g"), causal: false }).length,
    4,
  );
});

test("pictures stay until the first of the new sentence is there", () => {
  const loading = at(shown, { text: "new one", model: "two" });
  assert.equal(isBefore(shown), false);
  assert.equal(isBefore(loading), true);
  assert.equal(loading.slots.main.data, null);
  const arrived = answered(loading);
  assert.equal(isBefore(arrived), true); // until it is drawn
  assert.equal(isBefore(next(arrived, { kind: "drawn" })), false);
});

for (const [why, event] of [
  ["refused", { kind: "refused", slot: "main", error: "No.", status: 422 }],
  ["given up", { kind: "cancelled" }],
])
  test(`a sentence that is ${why} leaves the one before`, () => {
    const back = next(at(shown, { text: "new one" }), /** @type {any} */ (event));
    assert.equal(back.slots, shown.slots);
    assert.equal(back.apart, true);
    assert.equal(todo(back), null);
    assert.equal(isBefore(back), false);
    assert.deepEqual([back.alarm, back.said], why === "refused" ? ["No.", ""] : ["", "Cancelled."]);
    assert.equal(at(back, { text: "a b", model: "two" }).apart, false);
    assert.equal(at(at(shown, { text: "x" }), { text: "y" }).before, shown.slots); // the last that was drawn
  });

test("without pictures there is nothing to go back to", () => {
  const empty = at(start(known), { text: "  " });
  assert.deepEqual([empty.alarm, empty.apart, todo(empty)], [EMPTY, false, null]);
  const tried = at(empty, { text: "a" });
  assert.deepEqual([tried.alarm, todo(tried).body.text], ["", "a"]);
});

test("what the server has forgotten is measured again, but not forever", () => {
  const gone = { kind: "refused", slot: "main", error: "Gone.", status: 410 };
  const again = next(answered(short), gone);
  assert.deepEqual([keys(again.slots.main), todo(again).body.measures], [[], ["first"]]);
  const twice = next(answered(again), gone);
  assert.deepEqual([twice.alarm, todo(twice)], ["Gone.", null]);
  assert.equal(finished(again).state.slots.main.again, false);
  const saved = next(shown, { kind: "gone" });
  assert.equal(todo(saved), null); // until Measure is pressed
  assert.deepEqual(finished(at(saved, { text: "a b", model: "two" })).asked, ["first", "large+small", "long"]);
});

test("a changed sentence and another model follow the first, and one refused does not stop the other", () => {
  const asked = { text: "a b", model: "one", edited: "a c", other: "two" };
  const { state } = finished(at(start(known), asked));
  assert.deepEqual([state.slots.edited.ask.text, state.slots.other.ask.model], ["a c", "two"]);
  assert.ok(state.slots.edited.data && state.slots.other.data);
  const refused = next(at(state, { ...asked, edited: "bad" }), {
    kind: "refused",
    slot: "edited",
    error: "",
    status: 422,
  });
  assert.equal(todo(refused), null);
  assert.ok(refused.slots.other.data && !refused.slots.edited.data);
  const alone = at(state, { text: "a b", model: "one" });
  assert.equal(alone.slots.edited.data, null);
  assert.equal(alone.slots.main, state.slots.main);
  assert.equal(at(state, { ...asked, text: "z" }).slots.other.data, null); // of another sentence
});

test("progress is said, and how long it will still take", () => {
  const task = todo(short),
    report = (state, more) => next(state, { kind: "progress", task, at: 0, ...more });
  assert.equal(report(short, { busy: 3 }).said, "The server is busy; trying again in 3 s");
  assert.equal(report(short, { waiting: 2 }).said, "Waiting: 2 before this");
  assert.equal(report(short, { waiting: 0 }).said, "Measuring first");
  const half = report(report(short, { done: 0, of: 100 }), { done: 50, of: 100, at: 60_000 });
  assert.deepEqual([half.said, half.share], ["Measuring first: 50\u00a0%, about 1 min left", 0.5]);
  assert.deepEqual([duration(3), duration(49), duration(100)], ["about 10 s", "about 50 s", "about 2 min"]);
  assert.equal(duration(2505 * 60), "about 42 hours");
  assert.equal(answered(half).said, "");
});

test("what takes long is offered for one sentence, and not while it is measured", () => {
  const { state } = finished(at(start(known), { text: "a b c d" }));
  assert.deepEqual(offer(state), { name: "long", words: "4 take about 20 s." });
  const asked = at(state, { text: "a b c d", once: "long" });
  assert.equal(offer(asked), null);
  assert.deepEqual(offer(next(asked, { kind: "cancelled" })), offer(state));
  assert.equal(offer(finished(asked).state), null);
  assert.equal(offer(shown), null);
  const brief = finished(at(start({ ...known, seconds: 10 }), { text: "a b c d" })).state; // longer than it may take
  assert.deepEqual(offer(brief), { name: "", words: "about 20 s of 10 s" });
});

test("a view may ask for what it is not drawn by because the text is long", () => {
  const { state } = finished(at(start(known), { text: "a b c d" }));
  assert.equal(longer(state, "flow"), "long");
  assert.equal(longer(at(state, { text: "a b c d", once: "long" }), "flow"), null);
  assert.equal(longer(shown, "flow"), null); // short: it is there
  assert.equal(longer(state, "maps"), null);
});

test("no event changes the record it is given", () => {
  const frozen = JSON.stringify(shown);
  const task = { slot: "main", body: { measures: ["seldom"] }, label: "" };
  at(shown, { text: "new" });
  next(shown, { kind: "arrived", task, key: "k", data: shown.slots.main.data });
  next(shown, { kind: "cancelled" });
  next(shown, { kind: "gone" });
  assert.equal(JSON.stringify(shown), frozen);
});

const sides = row({ stage: 4, positions: true, read: "lens", view: "sides" });

test("both sides are asked of the token that was chosen last, or of the mask", () => {
  const here = known.models.map((model) => ({ ...model, measures: ["first", "sides"] })),
    all = { ...known, measures: { ...measures, sides }, models: here },
    event = (asked) => ({ kind: "address", asked: { model: "one", text: "a b [MASK]", ...asked } });
  let state = next(start(all), event({}));
  state = answered(state);
  assert.deepEqual(todo(state).body.positions, [2]);
  assert.equal(awaited(state, "sides"), "sides");
  const task = todo(state);
  state = next(state, { kind: "arrived", task, key: "k", data: { trace: 1 } });
  assert.deepEqual(state.slots.main.data["lensed"], { trace: 1 });
  assert.equal(todo(state), null);
  state = next(state, event({ asked: "1,0" }));
  assert.deepEqual(todo(state).body.positions, [0]);
});

test("a map of one layer is asked for of a long text alone, when a layer is named, and again for another head", () => {
  const far = (text, place) => at(start(known), { text, far: place });
  assert.ok(!finished(far("a b", "2 mean")).asked.includes("layer"));
  assert.ok(!finished(far("a b c d", "")).asked.includes("layer"));
  const { state, asked } = finished(far("a b c d", "2 mean"));
  assert.deepEqual(asked.slice(0, 3), ["first", "layer", "large+small"]); // alone, and before what nobody asked for
  /** @type {any} */
  const [four, two] = ["a b c d", "a b"].map((text) => ({ attrs: { model: "one" }, tokens: tokens(text) }));
  assert.deepEqual([isLong(known, four), isLong(known, two)], [true, false]);
  const other = at(state, { text: "a b c d", far: "2 1" }),
    task = todo(other);
  assert.deepEqual([task.body.layer, task.body.measures, task.far], [2, ["layer"], "2 1"]);
  assert.equal(todo(next(other, { kind: "refused", slot: "main", error: "No.", status: 422, task }))?.far ?? "", "");
});
