// @ts-check
// The first picture in numbers: parts add up, each is as long as it is large, names do not overlap.

import assert from "node:assert/strict";
import { test } from "node:test";

import { excerptOf, labelsOf, partsOf, ribbonOf, segmentsOf } from "../../../src/whence/page/js/core/story.js";

const parts = partsOf([0.5, 2, 0, -1, 0.25], { own: 4, sink: -1, constant: -0.5 });

test("parts come as they are read, what is against them last, and what is zero not at all", () => {
  assert.deepEqual(
    parts.map(({ place, kind }) => [place, kind]),
    [
      [0, "source"],
      [1, "source"],
      [4, "own"],
      [3, "against"],
      [-1, "against"],
    ],
  );
  const sunk = partsOf([9, 1, -2], { own: 2, sink: 0, constant: 1 });
  assert.deepEqual(
    sunk.map(({ kind }) => kind),
    ["sink", "source", "constant", "against"],
  );
  assert.equal(partsOf([Number.NaN, 1], { own: 0, sink: -1, constant: 0 }).length, 1);
});

test("a part is as long as it is large, and together they fill the bar", () => {
  const segments = segmentsOf(parts, 1000),
    unit = segments[0].width / 0.5;
  for (const { value, width } of segments) assert.ok(Math.abs(width - Math.abs(value) * unit) < 1e-9);
  assert.ok(Math.abs(segments.at(-1).x + segments.at(-1).width - 1000) < 1e-9);
  for (const [at, { x, width }] of segments.slice(0, -1).entries()) assert.ok(segments[at + 1].x >= x + width - 1e-9);
});

test("a sink takes the room of its name, however large it is", () => {
  const [sink, one, other] = segmentsOf(partsOf([900, 1, 3], { own: -1, sink: 0, constant: 0 }), 500);
  assert.equal(sink.width, 60);
  assert.ok(Math.abs(other.width / one.width - 3) < 1e-9);
  assert.deepEqual(segmentsOf([], 500), []);
});

test("names stand over the largest parts and leave each other room", () => {
  const segments = segmentsOf(partsOf([4, 3.9, 0.01, 3.8, -4], { own: -1, sink: -1, constant: 0 }), 400),
    name = ({ place }) => "x".repeat(place === 3 ? 30 : 8),
    labels = labelsOf(segments, 400, name, (text) => text.length * 7, 3);
  assert.equal(labels.length, 3);
  const sorted = labels.toSorted((one, next) => one.x - next.x);
  for (const [at, { x, width }] of sorted.entries()) {
    assert.ok(x >= 0 && x + width <= 400);
    if (at) assert.ok(x > sorted[at - 1].x + sorted[at - 1].width);
  }
  assert.ok(labels.every(({ at }) => at.place !== 2));
});

test("a ribbon ends at its token, and falls straight past the lines above it", () => {
  const segment = { place: 0, value: 1, kind: /** @type {"source"} */ ("source"), x: 10, width: 40 };
  const path = ribbonOf(segment, { x: 100, y: 200, width: 30, height: 20 }, 50, 120);
  assert.match(path, /^M10 50C/);
  assert.match(path, /V200H130V120/);
  assert.equal(ribbonOf({ ...segment, width: 1 }, { x: 0, y: 0, width: 9, height: 9 }, 0, 0), "");
});

test("of a long text those tokens are shown that matter, with their neighbours", () => {
  const row = Float64Array.from({ length: 100 }, (_, place) => (place === 50 ? -3 : place === 20 ? 2 : 0.001));
  const shown = excerptOf(row, [99], { most: 12, around: 1 });
  const places = [...shown.keys()].filter((place) => shown[place]);
  assert.equal(places.length, 12);
  for (const place of [98, 99, 49, 50, 51, 19, 20, 21]) assert.ok(places.includes(place));
});
