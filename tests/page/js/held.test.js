// @ts-check
// What is shown stays: something better is offered, and differences that may be chance are blank.

import assert from "node:assert/strict";
import { test } from "node:test";

import { held } from "../../../src/whence/page/js/core/state.js";
import { contrasted, most } from "../../../src/whence/page/js/views/beside.js";

const options = (...names) => names.map((name) => [name, `the ${name}`]);

test("a view keeps what it began with and offers what is better, until the reader chooses", () => {
  /** @type {any} */
  const state = { map: "" };
  assert.deepEqual(held(state, "map", options("quick")), { key: "quick", better: null });
  const later = options("best", "quick");
  assert.deepEqual(held(state, "map", later), { key: "quick", better: ["best", "the best"] });
  assert.deepEqual(held({ ...state, map: "best" }, "map", later), { key: "best", better: null });
  assert.deepEqual(held({ ...state, first: {}, map: "gone" }, "map", later), { key: "best", better: null });
  assert.equal(held({ ...state, first: {} }, "map", later).key, "best"); // another sentence
});

test("a difference within the error of two estimates is not drawn, and stays in the numbers", () => {
  const tokens = ["a", "b"].map((text) => ({ text, shown: text, word: text, special: false }));
  const plane = (...values) => ({
    dims: [],
    shape: [1, 2, 2],
    signed: false,
    values: Float32Array.from(values),
    scale: null,
  });
  const side = (one, other) => ({
    heading: "",
    field: { variable: "found", read: "row" },
    data: {
      ...{ tokens, layers: [1], heads: 0, causal: false, cache: new Map(), errors: { found: "off" } },
      variables: { found: plane(one, 1 - one, other, 1 - other), off: plane(0.1, 0.1, 0.01, 0.01) },
    },
  });
  /** @type {any} */
  const sides = [side(0.5, 0.5), side(0.6, 0.6)];
  const noisy = contrasted(sides[0], sides[1], 0),
    sure = contrasted(sides[0], sides[1], 1);
  assert.ok(noisy.drawn.every(Number.isNaN));
  assert.ok(Math.abs(noisy.difference[0] - 0.1) < 1e-6);
  assert.ok(sure.drawn.every(Number.isFinite));
  const said = (found) => most(/** @type {any} */ (sides), /** @type {any} */ (found));
  assert.equal(said(noisy).words, "");
  assert.match(said(noisy).nothing, /No number differs by more/);
  assert.match(said(noisy).doubt, /^~: estimates/);
  assert.match(said(sure).words, /from ~0.5 to ~0.6/);
  assert.match(said(contrasted(sides[0], sides[0], 1)).nothing, /No number|the same/);
});
