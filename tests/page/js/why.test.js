// @ts-check
// The page of a prediction: rows, spans, sinks and scales, computed without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bySpan, choice, decimal, decimals, ending, sinkOf } from "../../../src/whence/page/js/core/explained.js";
import { layerAt } from "../../../src/whence/page/js/views/spans.js";

const token = (text, span) => ({
  text,
  shown: text,
  read: text,
  word: text,
  special: false,
  gap: true,
  line: false,
  span,
});
const predicted = (position) => ({ position, token: "x", at: "y", place: -1, bias: [0, 0], sizes: [10, null] });
/** @type {any} */
const DATA = {
  causal: true,
  tokens: [token("a", 0), token("b", 1), token("c", 1)],
  spans: ["a", "b c"],
  layers: [0, 1],
  predicted: [predicted(1), predicted(2)],
  shades: [
    { name: "one", by: "sum" },
    { name: "two", by: "length" },
    { name: "three", by: "sum" },
  ],
  variables: {
    one: { shape: [2, 2, 3], values: Float32Array.from([6, 1, -2, 1, 7, 0, 3, 4, 1, 0, 0, 8]) },
    two: { shape: [2, 2, 3], values: Float32Array.from([1, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]) },
    three: { shape: [2, 1, 3], values: Float32Array.from([0.9, 0.1, 0, 0.5, 0.5, 0]) },
  },
};

test("a choice is one prediction's row at one layer, on the scale of the input", () => {
  const first = choice(DATA, { token: 1, layer: 0, show: "" });
  assert.deepEqual([...first.row], [6, 1, -2]);
  assert.deepEqual([first.at, first.sink, first.end, first.signed], [0, 0, 2, true]);
  const deeper = choice(DATA, { token: 1, layer: 1, show: "one" });
  assert.deepEqual([...deeper.row], [1, 7, 0]);
  assert.deepEqual([deeper.sink, deeper.end], [0, 2]); // as at layer 0, so that a colour means the same
  const second = choice(DATA, { token: 2, layer: 0, show: "one" });
  assert.deepEqual([[...second.row], second.sink, second.end, second.signed], [[3, 4, 1], -1, 4, false]);
});

test("what has no layers has one row, in per cent", () => {
  const handed = choice(DATA, { token: 2, layer: 1, show: "three" });
  assert.deepEqual([[...handed.row], handed.layer, handed.sink], [[0.5, 0.5, 0], 0, -1]);
  assert.equal(handed.format(0.5), "50\u00a0%");
});

test("an unknown token is the first prediction", () => {
  assert.equal(choice(DATA, { token: 0, layer: 0, show: "" }).at, 0);
});

test("shares of a span are summed, lengths are those of all its states", () => {
  const spans = (show) => bySpan(DATA, choice(DATA, { token: 1, layer: 0, show }));
  assert.deepEqual(spans("one"), [
    { name: "a", value: 6, sink: true, share: 0.6 },
    { name: "b c", value: -1, sink: false, share: -0.1 },
  ]);
  assert.deepEqual(
    spans("two").map(({ name, value, share }) => [name, value, share]),
    [
      ["b c", 5, null],
      ["a", 1, null],
    ],
  );
  const none = bySpan(DATA, choice(DATA, { token: 1, layer: 1, show: "one" }));
  assert.ok(none.every(({ share }) => share === null)); // parts that cancel are not told in per cent
});

test("spans that gave nothing are left out", () => {
  const deep = bySpan(DATA, choice(DATA, { token: 2, layer: 1, show: "one" }));
  assert.deepEqual(
    deep.map(({ name }) => name),
    ["b c"],
  );
});

test("a sink is a decoder's first token that holds most, and not where it predicts itself", () => {
  const input = Float32Array.from([-5, 4, 4]);
  assert.equal(sinkOf({ causal: true }, input, 2), 0);
  assert.equal(sinkOf({ causal: false }, input, 2), -1);
  assert.equal(sinkOf({ causal: true }, input, 0), -1);
  assert.equal(sinkOf({ causal: true }, Float32Array.from([1, -4]), 1), -1);
});

test("a scale ends at a number people say, and never at zero", () => {
  assert.equal(ending(Float32Array.from([9, 1.3, -0.2]), 0), 1.5);
  assert.equal(ending(Float32Array.from([9]), 0), 1);
});

test("numbers have two decimals, small ones two digits", () => {
  assert.deepEqual([-0.0979, 1.9, 12.34, 0.00004, 9.999].map(decimal), ["−0.10", "1.90", "12.3", "0", "10.0"]);
  assert.equal(decimal(0.0312), "0.031");
});

test("numbers of one picture have as many decimals, unless all of them are small", () => {
  assert.deepEqual([1.05, -0.094, 0.063, 0.004].map(decimals(1.5)), ["1.05", "−0.09", "0.06", "0"]);
  assert.deepEqual([0.0312, -0.004].map(decimals(0.05)), ["0.031", "−0.004"]);
});

test("a click on the depth finds the layer", () => {
  assert.equal(layerAt(0, 400, 7), 0);
  assert.equal(layerAt(1, 400, 7), 6);
  assert.equal(layerAt((40 + 350 / 2) / 400, 400, 7), 3);
});
