// @ts-check
// Data, state, scales and alignment: what is computed without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { aligned } from "../../../src/whence/page/js/core/align.js";
import {
  apart,
  byLayer,
  error,
  estimated,
  farthest,
  lacking,
  largest,
  listed,
  modelName,
} from "../../../src/whence/page/js/core/data.js";
import {
  notes,
  others,
  plane,
  said,
  shares,
  sinceInput,
  sinking,
  sinks,
  values,
} from "../../../src/whence/page/js/core/data.js";
import { wrapped } from "../../../src/whence/page/js/core/leave.js";
import { grouped } from "../../../src/whence/page/js/views/profile.js";
import { inkOn, limit, nice, number, percent, scale } from "../../../src/whence/page/js/core/scale.js";
import { chosen, moved, opening, selected, text } from "../../../src/whence/page/js/core/state.js";

const tokens = (words) => words.split(" ").map((word) => ({ text: word, shown: word, special: word.startsWith("[") }));
/** @type {any} */
const palette = { sequential: ["#ffffff", "#000000"], diverging: ["#ff8000", "#ffffff", "#0000ff"] };

// A few hundred cases that are the same every time.
function* random(count, seed = 1) {
  for (let state = seed; count > 0; count--) yield (state = (state * 48271) % 2147483647) / 2147483647;
}

test("a sentence is aligned with itself, token by token", () => {
  const one = tokens("[CLS] the cat sat on the mat . [SEP]");
  assert.deepEqual([...aligned(one, one)], [...one.keys()]);
});

test("replacements of equal length are partners, what is gone has none", () => {
  assert.deepEqual([...aligned(tokens("a cat sat"), tokens("a dog sat"))], [0, 1, 2]);
  assert.deepEqual([...aligned(tokens("a big cat sat"), tokens("a cat sat"))], [0, -1, 1, 2]);
});

test("special tokens and pieces of two vocabularies are the same", () => {
  assert.deepEqual([...aligned(tokens("[CLS] ##ing [SEP]"), tokens("<s> Ġing </s>"))], [0, 1, 2]);
});

test("partners never cross, whatever the sentences", () => {
  const draws = [...random(600)].map((share) => "abcd"[Math.floor(share * 4)]);
  for (let start = 0; start + 15 <= draws.length; start += 15) {
    const one = tokens(draws.slice(start, start + 8).join(" ")),
      other = tokens(draws.slice(start + 8, start + 15).join(" "));
    const there = [...aligned(one, other)].filter((place) => place >= 0);
    assert.deepEqual(
      there,
      [...new Set(there)].sort((a, b) => a - b),
    );
    assert.ok(there.every((place) => place < other.length));
  }
});

test("a signed scale is paper at zero and as deep on either side", () => {
  for (const end of [0.01, 0.3, 7]) {
    const shade = scale(palette, end, true);
    assert.equal(shade.color(0), "#ffffff");
    assert.equal(shade.color(-end), "#ff8000");
    assert.equal(shade.color(end), "#0000ff");
    assert.equal(shade.color(2 * end), shade.color(end));
  }
});

test("limits are those of the sizes, and hold nearly all of them", () => {
  const values = Float32Array.from(random(500), (share) => share - 0.3);
  assert.equal(limit(values), limit(values.map((value) => -value)));
  assert.ok(values.filter((value) => Math.abs(value) > limit(values)).length <= 5);
  assert.equal(limit(Float32Array.of(0, NaN)), 1);
});

test("a nice number is at least the number and at most half as much again", () => {
  for (const share of random(300)) {
    const value = 10 ** (8 * share - 4);
    assert.ok(nice(value) >= value * 0.999 && nice(value) <= value * 1.51, String(value));
  }
  assert.equal(nice(0), 0);
});

test("numbers are written for people", () => {
  assert.equal(percent(0.274), "27\u00a0%");
  assert.equal(percent(-0.0123), "−1.2\u00a0%");
  assert.equal(percent(0.0004), "0.04\u00a0%");
  assert.equal(number(-1234.5), "−1230");
  assert.equal(number(NaN), "–");
  assert.equal(inkOn([255, 255, 255]), "#000000");
  assert.equal(inkOn([0, 0, 60]), "#ffffff");
});

const matrix = Float32Array.of(1, 3, 2, 2);
const variable = { dims: ["layer", "target", "source"], shape: [1, 2, 2], signed: false, values: matrix, scale: null };
const wordings = { comes: { since_input: true }, takes: { since_input: false } };
/** @type {any} */
const data = {
  tokens: tokens("a b"),
  layers: [1],
  heads: 0,
  causal: false,
  cache: new Map(),
  errors: {},
  absent: {},
  variables: { map: variable },
  styles: { map: { wording: "takes" }, far: { wording: "comes" } },
  wordings,
};

test("a page opens on the mask, or on the last token that stands for text", () => {
  /** @type {(words: string, rows?: number[]) => number} */
  const at = (words, rows = null) => opening(/** @type {any} */ ({ tokens: tokens(words), rows }));
  assert.equal(at("[CLS] a [MASK] b c [SEP]"), 2);
  assert.equal(at("[CLS] a b c [SEP]"), 3);
  assert.equal(at("The cat sat on"), 3);
  assert.equal(at("[BOS]"), 0);
  assert.equal(at("[CLS] a [MASK] b c [SEP]", [1, 3]), 3);
  assert.equal(at("[CLS] a b [SEP]", [0, 3]), 3);
});

test("rows that rest on the first token are counted and worded", () => {
  const words = { map: "{rows} of {all} rows on {first}" },
    some = { ...data, sinks: { words, rows: ["011"], heads: [["001", "000"]] } };
  assert.deepEqual([sinks(some, 0), sinks(some, 0, 0), sinks(some, 0, 1), sinks(some, 1)], ["011", "001", "000", ""]);
  assert.equal(sinks({ ...data, sinks: {} }, 0), "");
  assert.deepEqual([others(data, "011"), others({ ...data, rows: [0, 2] }, "011")], ["11", "1"]);
  assert.equal(sinking(some, "map", "011"), "2 of 3 rows on “\u2068a\u2069”");
});

test("a token that was not measured is said to be none", () => {
  const some = { ...data, rows: [1] };
  assert.equal(lacking(some, "map", 0, 0), "“\u2068a\u2069” was not measured");
  assert.equal(lacking(some, "map", 0, 1), "");
});

test("rows are shares of their sum", () => {
  assert.deepEqual([...shares(data, "map", 0, 0)], [0.25, 0.75]);
  assert.deepEqual([...shares(data, "map", 0, 1)], [0.5, 0.5]);
});

test("steps, factors and differences give the numbers back", () => {
  /** @type {Record<string, any>} */
  const given = {};
  given.steps = { shape: [1, 2, 2], values: Int16Array.of(1, 3, -32768, 2), scale: Float32Array.of(0.5) };
  assert.deepEqual([...plane(given.steps, 0)], [0.5, 1.5, NaN, 1]);
  const left = { shape: [1, 2, 1], values: Float32Array.of(1, 2), scale: null };
  const right = { shape: [1, 1, 2], values: Float32Array.of(3, 4), scale: null };
  given.product = { shape: [1, 2, 2], factors: [left, right] };
  assert.deepEqual([...plane(given.product, 0)], [3, 4, 6, 8]);
  given.difference = { of: [given.product, variable] };
  assert.deepEqual([...plane(given.difference, 0)], [2, 1, 4, 6]);
});

test("a field is read from its variable as its row says", () => {
  /** @type {(read: string, place?: number) => any} */
  const field = (read, place = 0) => ({ variable: "map", read, place });
  assert.deepEqual([...values(data, field("own"), 0)], [1, 2]);
  assert.deepEqual([...values(data, field("others"), 0)], [0, -1]);
  assert.deepEqual([...values(data, field("row"), 1)], [0.5, 0.5]);
  assert.deepEqual([...values(data, field("values"), 0)], [1, 3, 2, 2]);
  assert.deepEqual(byLayer(data, Float32Array.of(1, 3)), [2]);
});

test("errors, notes on heads and layers that do not attend are said", () => {
  const off = { shape: [1, 2, 2], values: Float32Array.of(0, 0.25, 0, 0), scale: null };
  /** @type {any} */
  const more = {
    ...{ ...data, layers: [1, 2, 3], heads: 2, errors: { map: "off" }, notes: ["width"], absent: { map: [1] } },
    ...{ variables: { map: variable, off, width: { values: [4, 7] } }, styles: { width: { note: "{value} wide" } } },
  };
  assert.equal(error(more, "map", 0, 0, 1), " ± 25\u00a0%");
  assert.equal(error(more, "map", 0, 1, 1), "");
  assert.equal(error(data, "map", 0, 0, 1), "");
  assert.deepEqual(notes(more, 0, 1), ["7 wide"]);
  assert.equal(lacking(more, "map", 1), "Layer 2 does not attend; layers 1 and 3 do");
  assert.equal(lacking(more, "map", 0), "");
});

test("the largest, the farthest, and lists of them", () => {
  const numbers = Float32Array.of(0.1, NaN, -0.9, 0.5, 0);
  assert.deepEqual(largest(numbers, 3), [3, 0]);
  assert.equal(farthest(numbers), 2);
  assert.equal(
    farthest(numbers, (value) => value),
    3,
  );
  assert.equal(farthest(Float32Array.of(NaN)), -1);
  assert.deepEqual([listed([]), listed(["a"]), listed(["a", "b", "c"])], ["nothing", "a", "a, b and c"]);
});

test("what a map means comes with the data", () => {
  assert.equal(sinceInput(data, "far"), true);
  assert.equal(sinceInput(data, "map"), false);
  assert.equal(sinceInput(data, "unknown"), false);
  assert.equal(said("what {token} attends to in", { token: "“cat”" }), "what “cat” attends to in");
});

test("an address keeps what is selected, in the layer's own number", () => {
  const state = { view: "maps", layer: 0, token: 1, source: 1, head: "mean", map: "", text: "a b" };
  assert.equal(text(state, data), "text=a+b&view=maps&layer=1&token=1&source=1");
  assert.equal(text(state, data, false), "view=maps&layer=1&token=1&source=1");
  assert.deepEqual(selected(state, ["view", "map"]), { view: "maps" });
  assert.equal(moved(state, { text: "new & other" }), "text=new+%26+other&view=maps");
});

test("a choice that is not there is the first there is", () => {
  assert.equal(chosen("b", [["a"], ["b"]]), "b");
  assert.equal(chosen("c", [["a"], ["b"]]), "a");
  assert.equal(chosen("c", []), undefined);
});

test("long sentences are broken between words, and no word is lost", () => {
  const words = [...random(200)].map((share) => "x".repeat(1 + Math.floor(share * 12)));
  const lines = wrapped(words.join(" "), 40);
  assert.deepEqual(lines.join(" ").split(" "), words);
  assert.ok(lines.every((line) => line.length <= 40));
  assert.deepEqual(wrapped("y".repeat(90), 40), ["y".repeat(90)]);
});

test("numbers are said to be estimates where they are, with the largest error", () => {
  const exact = {
    dims: ["layer", "target", "source"],
    shape: [1, 2, 2],
    signed: false,
    values: Float32Array.of(0, 0, 0, 0),
  };
  /** @type {any} */
  const some = {
    layers: [1],
    cache: new Map(),
    errors: { one: "one_se", other: "other_se" },
    variables: { one_se: { ...exact, values: Float32Array.of(0.01, 0.02, NaN, 0.005) }, other_se: exact },
  };
  assert.equal(estimated(some, "one"), "~: estimates, with standard errors of 2.0\u00a0% at most.");
  assert.equal(estimated(some, "other"), "");
  assert.equal(estimated(some, "none"), "");
});

test("words that are written alike carry their places in a sentence", () => {
  assert.deepEqual(apart(["the", "keys", "the"], [1, 2, 4]), ["“the” at 1", "“keys”", "“the” at 4"]);
});

test("a model on somebody's disk is called by the end of its path", () => {
  assert.equal(modelName("/models/of/ada/small.gguf"), "small.gguf");
  assert.equal(modelName("./mine/"), "mine");
  assert.equal(modelName("C:\\models\\mine"), "mine");
  assert.equal(modelName("google-bert/bert-base-uncased"), "google-bert/bert-base-uncased");
});

test("lines of one group come one after the other", () => {
  /** @type {any} */
  const lines = ["a1", "b1", "b2", "a2"].map((key) => ({ key, group: key[0] }));
  assert.deepEqual(
    grouped(lines).map(({ key }) => key),
    ["a1", "a2", "b1", "b2"],
  );
});
