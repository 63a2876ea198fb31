// @ts-check
// Pictures and sounds in numbers: every patch has its token, every frame its time.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  columnsOf,
  frameAt,
  patch,
  placed,
  sizeOf,
  times,
  tokensIn,
} from "../../../src/whence/page/js/core/patches.js";

/** @type {import("../../../src/whence/page/js/core/patches.js").Scene} */
const scene = {
  ...{ kind: "picture", words: {}, pictures: [{ rows: 2, columns: 3, image: "" }] },
  cells: [null, [0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 2]],
};

test("tokens of patches are drawn in the picture, all others in the text", () => {
  assert.deepEqual(placed(scene, 6), [false, true, true, true, true, true]);
  assert.deepEqual(placed(null, 2), [false, false]);
  assert.deepEqual(placed({ kind: "sound", words: {}, spans: [] }, 2), [true, true]);
});

test("every cell knows its token, and a cell without one says so", () => {
  assert.deepEqual([...tokensIn(scene, 0)], [1, 2, 3, 4, -1, 5]);
});

test("patches are square and fill the picture", () => {
  const size = sizeOf(scene.pictures[0], 300);
  assert.deepEqual(size, { width: 300, height: 200 });
  assert.deepEqual(patch(scene.pictures[0], size, 1, 2), { x: 200, y: 100, width: 100, height: 100 });
  assert.equal(sizeOf({ rows: 20, columns: 1, image: "" }, 300).height, 380);
});

/** @type {[number, number][]} */
const spans = [
  [0, 0.4],
  [0.2, 0.6],
  [0.4, 0.8],
];

test("a bar is as long as its value, down where that is negative, and ends where the next begins", () => {
  const { bars, zero } = columnsOf(spans, [1, -0.5, 0], 1, 800);
  assert.ok(Math.abs(bars[0].height - 2 * bars[1].height) < 1e-9);
  assert.ok(bars[0].y < zero && bars[1].y === zero && bars[2].height === 0);
  assert.ok(bars[0].x + bars[0].width <= bars[1].x);
});

test("the frame under the pointer is the last that has begun", () => {
  assert.deepEqual(
    [0, 0.24, 0.26, 0.6, 1].map((share) => frameAt(spans, share)),
    [0, 0, 1, 2, 2],
  );
});

test("an axis has a few round times", () => {
  assert.deepEqual(times(0.25), [0, 0.05, 0.1, 0.15, 0.2, 0.25]);
  for (const last of [0.003, 0.7, 8, 30, 500]) assert.ok(times(last).length <= 7 && times(last).length > 2);
});
