// @ts-check
// Two rows of words: what goes from one to the other by word, and where the ribbons between them lie.

import assert from "node:assert/strict";
import { test } from "node:test";

import { betweenLayout, carrying, linked, outline, ribbonsBetween } from "../../../src/whence/page/js/core/between.js";

const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-9, `${one} is not ${other}`);

/** Five tokens: a source of two words in three, an answer of two in two; the first row was not measured. */
const VALUES = [
  [NaN, NaN, NaN],
  [NaN, NaN, NaN],
  [NaN, NaN, NaN],
  [0.1, 0.2, 0.4],
  [0.3, 0.1, 0.2],
].flatMap((row) => [
  ...row,
  9, // from the answer itself: none of the source's
  9,
]);

test("pieces of a source word are added, those of the answer's word averaged", () => {
  const links = linked(
    VALUES,
    5,
    [[3, 5]],
    [
      [0, 2],
      [2, 3],
    ],
  );
  near(links[0].share, (0.1 + 0.2 + 0.3 + 0.1) / 2);
  near(links[1].share, (0.4 + 0.2) / 2);
});

test("rows that were not measured count for nothing", () => {
  const [link] = linked(VALUES, 5, [[2, 4]], [[0, 2]]);
  near(link.share, 0.1 + 0.2);
  assert.ok(Number.isNaN(linked(VALUES, 5, [[0, 1]], [[0, 2]])[0].share));
});

test("the largest are kept until they have the share that was asked for", () => {
  const links = [0.1, 0.5, NaN, 0.4].map((share, source) => ({ target: 0, source, share }));
  const { kept, share } = carrying(links, 0.6);
  assert.deepEqual(
    kept.map((link) => link.source),
    [1, 3],
  );
  near(share, 0.9);
  assert.equal(carrying(links, 1).kept.length, 3);
  assert.deepEqual(carrying([], 0.9), { kept: [], share: 1 });
  assert.equal(carrying(links, 0).kept.length, 0);
  near(carrying(links, 1, 1).share, 0.5);
});

const LINKS = [
  { target: 0, source: 0, share: 0.5 },
  { target: 0, source: 2, share: 0.25 },
  { target: 1, source: 0, share: 0.4 },
  { target: 1, source: 1, share: 0.5 },
];

for (const [room, widths] of /** @type {[number, number][]} */ ([
  [900, 40],
  [390, 90],
  [240, 60],
])) {
  const at = betweenLayout([widths, widths, widths], [widths, widths], LINKS, room),
    ribbons = ribbonsBetween(LINKS, at);

  test(`a ribbon is as wide above as below, and as wide as its share, with ${room} pixels`, () => {
    for (const { from, to, share } of ribbons) {
      near(from[1] - from[0], at.unit * share);
      near(to[1] - to[0], at.unit * share);
    }
  });

  test(`ribbons of a word lie side by side inside its slot, with ${room} pixels`, () => {
    for (const [end, edges, slots] of /** @type {any[]} */ ([
      ["source", "from", at.sources],
      ["target", "to", at.targets],
    ]))
      for (const [place, slot] of slots.entries()) {
        const mine = ribbons
          .filter((link) => link[end] === place)
          .sort((one, other) => one[edges][0] - other[edges][0]);
        for (const [at, link] of mine.entries()) if (at) near(link[edges][0], mine[at - 1][edges][1]);
        assert.ok(mine[0][edges][0] >= slot.x - 1e-9 && mine.at(-1)[edges][1] <= slot.x + slot.width + 1e-9);
      }
  });

  test(`words do not overlap, and each is found where it is drawn, with ${room} pixels`, () => {
    for (const [row, slots, y] of /** @type {any[]} */ ([
      [1, at.sources, at.top],
      [0, at.targets, at.bottom],
    ]))
      for (const [column, slot] of slots.entries()) {
        assert.deepEqual(at.find(slot.middle, y), { row, column });
        if (column) near(slot.x, slots[column - 1].x + slots[column - 1].width);
        assert.ok(slot.width >= (at.lying ? widths : 16));
      }
    assert.equal(at.find(2, at.top), null);
  });
}

test("labels lie where there is room, else they stand; very many words make the picture wider", () => {
  assert.ok(betweenLayout([40, 40], [40], LINKS.slice(0, 1), 900).lying);
  assert.ok(!betweenLayout(Array(20).fill(60), [40], LINKS.slice(0, 1), 900).lying);
  const long = betweenLayout(Array(200).fill(60), [40], LINKS.slice(0, 1), 900);
  assert.ok(long.width > 900 && long.sources.every(({ width }) => width >= 16));
  assert.ok(betweenLayout(Array(40).fill(60), [40], LINKS.slice(0, 1), 900).width <= 900);
});

test("an outline goes from the word above to the word below and back", () => {
  const path = outline({ target: 0, source: 0, share: 1, from: [10, 30], to: [50, 70] }, 0, 100);
  assert.equal(path, "M10.0 0.0C10.0 50.0 50.0 50.0 50.0 100.0L70.0 100.0C70.0 50.0 30.0 50.0 30.0 0.0Z");
});
