// @ts-check
// Level of detail: nothing that stands out is lost, and no more pixels are made than are asked for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bands, lookup, pooled } from "../../../src/whence/page/js/core/pixels.js";
import { limit, scale } from "../../../src/whence/page/js/core/scale.js";

const whole = (down, across) => ({ firstRow: 0, firstColumn: 0, down, across });

test("one cell that stands out among four million is seen at every size", () => {
  for (const most of [1, 7, 300, 1999]) {
    const { values, wide, high } = pooled(
      (row, column) => (row === 1234 && column === 56 ? -3 : 0.1),
      whole(2000, 2000),
      most,
    );
    assert.deepEqual([wide, high], [most, most]);
    assert.equal(values.filter((value) => value === -3).length, 1);
  }
});

test("a map with room for all its cells stays as it is, and what was not measured stays blank", () => {
  const cells = [1, NaN, -2, 4, 5, NaN],
    { values, wide, high } = pooled((row, column) => cells[row * 3 + column], whole(2, 3), 100);
  assert.deepEqual([wide, high, ...values], [3, 2, ...cells]);
  const part = pooled((row, column) => cells[row * 3 + column], { firstRow: 1, firstColumn: 1, down: 1, across: 2 }, 9);
  assert.deepEqual([...part.values], [5, NaN]);
});

test("colours looked up are those of the scale", () => {
  /** @type {any} */
  const palette = { sequential: ["#ffffff", "#0000ff"], diverging: ["#ff0000", "#ffffff", "#0000ff"] };
  for (const signed of [true, false]) {
    const shades = scale(palette, 2, signed),
      color = lookup(shades);
    for (const value of [-3, -2, -1, 0, 0.4, 1, 2, 5]) {
      const word = color(value),
        found = [word & 255, (word >> 8) & 255, (word >> 16) & 255];
      for (const [at, part] of shades.rgb(value).entries()) assert.ok(Math.abs(part - found[at]) <= 2);
    }
    assert.equal(color(NaN), 0);
  }
});

test("the end of the scale of very many values is that of a part of them", () => {
  const values = Float32Array.from({ length: 2_000_000 }, (_, at) => ((at * 7919) % 1000) / 1000);
  assert.equal(limit(values), 1);
});

test("bands are all of a map, one after the other, and none has more cells than it may", () => {
  for (const [down, across, most] of [
    [2000, 2000, 200_000],
    [3, 7, 5],
    [12, 12, 1000],
    [1, 5000, 10],
  ]) {
    const found = bands({ ...whole(down, across), firstRow: 4 }, most);
    let row = 4;
    for (const band of found) {
      assert.equal(band.firstRow, row);
      assert.ok(band.down * band.across <= Math.max(most + across, across));
      row += band.down;
    }
    assert.equal(row, down + 4);
  }
});

test("pooled band by band, what stands out is seen as well", () => {
  const value = (row, column) => (row === 1234 && column === 56 ? -3 : 0.1),
    seen = bands(whole(2000, 2000), 200_000).map((band) => pooled(value, band, 300, 15).values);
  assert.equal(seen.flatMap((values) => [...values]).filter((one) => one === -3).length, 1);
});
