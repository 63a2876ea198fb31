// @ts-check
// Where things go, where a key goes, and what a flow consists of: pure functions of counts, widths and numbers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LONG, NARROW, closer, flowLayout, gridLayout, gutter } from "../../../src/whence/page/js/core/layout.js";
import {
  columnsIn,
  height,
  isCompact,
  span,
  tileLayout,
  wrappedLayout,
} from "../../../src/whence/page/js/core/layout.js";
import { bundled, isBundle, placesOf, single } from "../../../src/whence/page/js/core/bundle.js";
import { stepped } from "../../../src/whence/page/js/core/walk.js";
import { contrasted, level } from "../../../src/whence/page/js/views/beside.js";
import {
  crowd,
  gathered,
  hasSink,
  network,
  passing,
  rowOf,
  strongest,
} from "../../../src/whence/page/js/views/network.js";
import { ribbonsOf } from "../../../src/whence/page/js/views/ribbons.js";
import { highlights, marks } from "../../../src/whence/page/js/views/river.js";

const sizes = (rows, columns, more = {}) => ({
  ...{ rows: Array(rows).fill(30), columns: Array(columns).fill(30), wide: 72, tall: 20, above: false },
  ...more,
});

test("every cell of a grid is found where it is drawn, and nothing beside the grid", () => {
  for (const more of [{}, { square: true, above: true, tall: 34, wide: 34 }, { side: true, corner: 200 }])
    for (const room of [300, 1180]) {
      const at = gridLayout(sizes(3, 7, more), room);
      for (let row = 0; row < 3; row++)
        for (let column = 0; column < 7; column++) {
          const { x, y, width, height: tall } = at.box({ row, column });
          assert.deepEqual(at.find(x + width / 2, y + tall / 2), { row, column });
          assert.ok(x >= at.left && x + width <= at.width && y + tall <= at.height - 34);
        }
      assert.equal(at.find(at.left - 1, at.top + 1), null);
      assert.equal(at.find(at.left + 1, at.top + at.down * at.tall + 1), null);
    }
});

test("a grid takes the room that is there and no more", () => {
  for (const columns of [1, 5, 40, 200])
    for (const room of [260, 390, 1180]) {
      const part = { compact: isCompact(sizes(6, columns), room) };
      assert.ok(gridLayout(sizes(6, columns), room, part).width <= room + 1, `${columns} in ${room}`);
    }
});

test("labels lie where they fit and stand where they do not", () => {
  assert.equal(gridLayout(sizes(2, 4), 600).lying, true);
  assert.equal(gridLayout(sizes(2, 30), 600).lying, false);
  const [low, high] = [gridLayout(sizes(2, 4), 600), gridLayout(sizes(2, 30), 600)];
  assert.ok(high.height > low.height);
});

test("many or narrow columns are compact, with a closer look around the chosen cell", () => {
  assert.equal(isCompact(sizes(4, LONG), 2000), false);
  assert.equal(isCompact(sizes(4, LONG + 1), 2000), true);
  assert.equal(isCompact(sizes(4, 30), gutter(sizes(4, 30)) + 30 * NARROW - 1), true);
  for (const column of [0, 50, 99]) {
    const part = closer(sizes(100, 100, { square: true }), 400, { row: column, column }),
      at = gridLayout(sizes(100, 100, { square: true }), 400, part);
    assert.ok(at.holds({ row: column, column }));
    assert.equal(at.holds({ row: column, column: column === 50 ? 0 : 50 }), false);
    const { x, y } = at.box({ row: column, column });
    assert.deepEqual(at.find(x + 1, y + 1), { row: column, column });
  }
});

test("a span holds its place, is as long as it may be and stays inside", () => {
  for (let count = 1; count < 12; count++)
    for (let at = 0; at < count; at++)
      for (let most = 1; most < 14; most++) {
        const [first, end] = span(count, at, most);
        assert.ok(first >= 0 && end <= count && first <= at && at < end);
        assert.equal(end - first, Math.min(most, count));
      }
});

test("more layers, lower rows, within reason", () => {
  assert.deepEqual([1, 6, 12, 24, 96].map(height), [30, 30, 28, 14, 12]);
});

/** @param {number[]} shares @param {any} look @returns {any} */
const flow = (rows, shares, room, look = {}) => {
  const columns = look.columns ?? single(shares);
  return { ...flowLayout(rows, Array(columns.length).fill(8), room, { ...look, columns }), label: () => "a" };
};

test("every node of a flow is found where it is drawn, the input at the bottom", () => {
  const shares = [0.4, 0, 0.1, 0.3, 0, 0.05, 0.05, 0.05, 0.05];
  for (const [whole, room, columns] of [
    [false, 600, undefined],
    [true, 600, undefined],
    [true, 360, bundled(shares, 5, [2])],
  ]) {
    const at = flow(4, shares, room, { whole, columns });
    for (let row = 0; row < 4; row++)
      for (const { first } of at.columns) assert.deepEqual(at.find(at.x(first), at.y(row)), { row, column: first });
    assert.ok(at.y(0) > at.y(3) && at.width <= /** @type {number} */ (room));
    assert.equal(at.find(at.left - 1, at.y(0)), null);
    assert.equal(at.find(at.width, at.y(0)), null);
  }
});

test("tokens that matter stand alone, the others are bundled, and nothing is lost", () => {
  const weights = Float32Array.from({ length: 200 }, (_, at) => ((at * 37) % 101) / 101 + (at === 150 ? 5 : 0));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  for (const most of [5, 17, 49])
    for (const keep of [0.1, 0.5, 1]) {
      const columns = bundled(weights, most, [0, 199], keep),
        places = placesOf(columns);
      assert.ok(columns.length <= most);
      assert.equal(places.length, 200);
      for (const [at, { first, end, share }] of columns.entries()) {
        assert.equal(first, at ? columns[at - 1].end : 0);
        const inside = weights.slice(first, end).reduce((sum, weight) => sum + weight, 0);
        assert.ok(Math.abs(inside - share) < 1e-3 * total);
      }
      for (const alone of [0, 150, 199]) assert.equal(isBundle(columns[places[alone]]), false, `${alone} of ${most}`);
    }
  assert.equal(bundled(weights, 49, [], 0.03).filter((column) => !isBundle(column)).length, 1); // token 150
  assert.equal(bundled(Float32Array.of(1, 1, 1), 9).length, 3);
  assert.deepEqual(bundled([], 5), []);
});

test("ribbons are as wide as their shares, at the bar and below, and do not touch", () => {
  const shares = [0.3, 0.05, 0.15, 0.2, 0.02, 0.08, 0.2];
  for (const room of [320, 390, 1180]) {
    const at = flow(2, shares, room, { whole: true, above: 40 });
    /** @type {any} */
    const picture = { state: { token: 3 }, sink: true };
    const all = ribbonsOf(picture, at);
    assert.deepEqual(all.map(({ kind }) => kind).slice(0, 4), ["constant", "source", "source", "own"]);
    for (const [place, { top, foot, share }] of all.entries()) {
      assert.ok(Math.abs(top[1] - top[0] - at.unit * share) < 1e-6);
      assert.ok(Math.abs(foot[1] - foot[0] - Math.max(at.unit * share, 0.8)) < 1e-6);
      if (place) assert.ok(all[place - 1].foot[1] < foot[0] && Math.abs(all[place - 1].top[1] - top[0]) < 1e-6);
    }
    assert.ok(all[0].top[0] >= at.left && all.at(-1).top[1] <= at.right + 1e-6);
  }
});

test("columns that can be read fit into the room", () => {
  for (const room of [320, 390, 768, 1180]) {
    const most = columnsIn(room),
      shares = Array(most).fill(1 / most);
    for (const whole of [true, false]) {
      const at = flow(2, shares, room, { whole });
      assert.ok(at.width <= room && at.wide >= 15, `${most} columns in ${room}`);
    }
  }
});

test("every head is found where it is drawn, within the room", () => {
  const at = tileLayout(6, 12, 390);
  assert.ok(at.width <= 390);
  for (let row = 0; row < 6; row++)
    for (let column = 0; column < 12; column++) {
      const { x, y } = at.place({ row, column });
      assert.deepEqual(at.find(x + at.side / 2, y + at.side / 2), { row, column });
    }
  assert.ok(at.place({ row: 5, column: 0 }).y < at.place({ row: 0, column: 0 }).y);
});

test("the heads of one layer can be read on a phone, and are found where they are drawn", () => {
  for (const [heads, room] of [
    [12, 362],
    [9, 700],
    [1, 240],
    [32, 362],
  ]) {
    const at = wrappedLayout(heads, room);
    assert.ok(at.width <= room && at.side >= 100);
    for (let head = 0; head < heads; head++) {
      const { x, y } = at.place(head),
        cell = at.find(x + at.side / 2, y + at.side / 2);
      assert.equal(cell.row * at.columns + cell.column, head);
    }
    assert.equal(at.find(at.width / 2, at.height + 1), null);
  }
});

test("many layers of few heads are not taller than a screen or two", () => {
  assert.ok(tileLayout(30, 9, 1132).height <= 1200 && tileLayout(30, 9, 1132).side >= 30);
  assert.equal(tileLayout(6, 12, 1132).side, 84);
});

test("keys walk inside, whichever way rows count", () => {
  const keys = { here: { row: 1, column: 1 }, rows: 3, columns: 3 };
  assert.deepEqual(stepped("ArrowUp", keys), { row: 2, column: 1 });
  assert.deepEqual(stepped("ArrowUp", { ...keys, up: -1 }), { row: 0, column: 1 });
  assert.deepEqual(stepped("ArrowLeft", keys), { row: 1, column: 0 });
  assert.deepEqual(stepped("Home", keys), { row: 1, column: 0 });
  assert.deepEqual(stepped("End", keys), { row: 1, column: 2 });
  assert.equal(stepped("x", keys), null);
  assert.equal(stepped("ArrowUp", { ...keys, rows: 1 }), null); // a row of buttons leaves it to the page
  for (const key of ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"])
    assert.deepEqual(stepped(key, { here: { row: 0, column: 0 }, rows: 1, columns: 1 })?.row ?? 0, 0);
});

// Two layers, three tokens; rows add up to one.
const maps = [
  Float32Array.of(1, 0, 0, 0.5, 0.5, 0, 0.2, 0.3, 0.5),
  Float32Array.of(1, 0, 0, 0.25, 0.75, 0, 0, 0.4, 0.6),
];
const tokens = ["a", "b", "c"].map((text) => ({ text, shown: text, word: text, special: false }));
const values = Float32Array.of(...maps[0], ...maps[1]);
/** @type {any} */
const data = {
  ...{ tokens, layers: [1, 2], heads: 0, causal: false, errors: {}, absent: {}, cache: new Map() },
  variables: { map: { dims: ["layer", "target", "source"], shape: [2, 3, 3], signed: false, values, scale: null } },
  ...{ styles: { map: { wording: "takes" } }, wordings: { takes: { since_input: false } } },
};
/** @type {{ layer: number, token: number, head: "mean" }} */
const chosen = { layer: 1, token: 2, head: "mean" };

test("a flow goes back by the product of its maps, and its links carry it all", () => {
  const net = network(data, "map", chosen, "into"),
    product = [0, 1, 2].map((source) =>
      [0, 1, 2].reduce((sum, by) => sum + maps[1][6 + by] * maps[0][by * 3 + source], 0),
    );
  for (const [source, share] of product.entries()) assert.ok(Math.abs(net.input[source] - share) < 1e-6);
  for (const row of [1, 2]) {
    const into = net.links.filter((link) => link.to === row).reduce((sum, link) => sum + link.strength, 0);
    assert.ok(Math.abs(into - 1) < 1e-6);
  }
  assert.deepEqual(
    net.links.map((link) => link.strength),
    net.links.map((link) => link.strength).sort((one, other) => one - other),
  );
  assert.equal(rowOf(net, 1), 2);
  assert.ok(Math.abs(net.total - 2) < 1e-6);
  assert.equal(crowd(net, 3), 60);
});

test("links of bundled tokens go together; the strongest carry the share that is asked for", () => {
  const net = network(data, "map", chosen, "into"),
    { all, total } = gathered(
      net,
      [
        { first: 0, end: 2, share: 0 },
        { first: 2, end: 3, share: 0 },
      ],
      false,
    );
  const carried = (links) => links.reduce((sum, { strength }) => sum + strength, 0);
  assert.ok(Math.abs(carried(all) - carried(net.links)) < 1e-6 && Math.abs(total - 2) < 1e-6);
  assert.deepEqual(new Set(all.flatMap(({ source, target }) => [source, target])), new Set([0, 2]));
  for (const keep of [0.2, 0.6, 1]) {
    const { kept, share } = strongest(net.links, net.total, { keep });
    assert.ok(share >= keep - 1e-6 && Math.abs(share - carried(kept) / 2) < 1e-6);
    assert.ok(carried(kept.slice(1)) < keep * 2 + 1e-6);
  }
  assert.equal(strongest(net.links, net.total, { most: 2 }).kept.length, 2);
  assert.deepEqual(
    Array.from(passing(net, "into"), (share) => Math.round(share * 1000)),
    [320, 400, 600],
  );
});

test("a decoder's first token that holds the attention is a sink, and its links with itself are left out", () => {
  const sunk = { ...data, causal: true, cache: new Map(), sinks: { rows: ["000", "001"], heads: [] } };
  assert.equal(hasSink(sunk, chosen), true);
  assert.equal(hasSink(sunk, { ...chosen, layer: 0 }), false);
  assert.equal(hasSink(sunk, { ...chosen, token: 0 }), false);
  assert.equal(hasSink({ ...sunk, causal: false }, chosen), false);
  const net = network(sunk, "map", chosen, "into"),
    { all, total } = gathered(net, single(net.input), true);
  assert.equal(all.filter(({ source, target }) => source === 0 && target === 0).length, 0);
  const own = net.links.filter(({ source, target }) => source === 0 && target === 0);
  assert.ok(Math.abs(net.total - total - own.reduce((sum, { strength }) => sum + strength, 0)) < 1e-6);
});

test("below the input stands what the chosen token has of it, where that is a share", (context) => {
  const measure = { measureText: (/** @type {string} */ text) => ({ width: 7 * text.length }) },
    page = { createElement: () => ({ getContext: () => measure }) };
  Object.assign(globalThis, { document: page }); // labels are measured on a canvas
  context.after(() => Reflect.deleteProperty(globalThis, "document"));
  const net = network(data, "map", chosen, "into"),
    at = flow(3, [0.3, 0.3, 0.4], 600);
  /** @type {any} */
  const picture = {
    ...{ net, kept: net.links, data, state: chosen, mode: "into", sink: false },
    palette: { sequential: ["#ffffff", "#000000"], diverging: ["#a", "#b", "#c", "#d", "#e"], paper: "p" },
  };
  const written = (changes) =>
    marks({ ...picture, ...changes }, at)
      .filter(({ text }) => text?.includes("%"))
      .map(({ text }) => Math.round(parseFloat(text)));
  assert.deepEqual(
    written({}),
    Array.from(net.input, (share) => Math.round(100 * share)),
  );
  assert.deepEqual(written({ mode: "all" }), []);
  assert.deepEqual(written({ net: { ...net, input: Float32Array.of(-0.5, 1, 0.5) } }), []);
});

test("a ribbon of an estimate is soft by two standard errors, and one of a number is not", () => {
  const at = { ...flow(2, [0.3, 0.3, 0.4], 600), unit: 100 };
  const soft = (doubts) =>
    ribbonsOf(/** @type {any} */ ({ state: chosen, sink: false, doubts }), /** @type {any} */ (at));
  assert.deepEqual(
    soft(null).map((ribbon) => ribbon.soft),
    [0, 0, 0],
  );
  const [first] = soft(Float32Array.of(0.05, 0, 0)); // of 100 pixels, 5 on either side
  assert.ok(Math.abs(first.soft - 5) < 1e-5 && Math.abs(first.foot[1] - first.foot[0] - 30) < 1e-5);
});

test("a flow is drawn as curves, nodes and labels, the strongest link widest", () => {
  const net = network(data, "map", chosen, "into"),
    at = flow(3, [0.3, 0.3, 0.4], 600);
  /** @type {any} */
  const palette = { sequential: ["#ffffff", "#000000"], diverging: ["#a", "#b", "#c", "#d", "#e"], paper: "p" };
  /** @type {any} */
  const picture = { net, kept: net.links, data, state: chosen, palette, mode: "into", sink: false };
  const list = marks(picture, at),
    curves = list.filter((mark) => mark.path);
  const drawn = curves.flatMap(({ path }) => path.match(/M/g)).length;
  assert.equal(drawn, net.links.length);
  assert.equal(list.filter((mark) => mark.circle).length, 9);
  assert.deepEqual(
    list.filter(({ text }) => text && !text.includes("%")).map(({ text }) => text),
    ["input", "1", "2", "a", "a", "a"],
  );
  const widest = Math.max(...curves.map(({ width }) => width));
  assert.equal(widest, 8);
  const over = highlights(picture, at, { row: 1, column: 1 }),
    touched = net.links.filter(
      ({ from, source, to, target }) => (to === 1 && target === 1) || (from === 1 && source === 1),
    );
  assert.equal(over[1].path.match(/M/g).length, touched.length);
  assert.equal(highlights(picture, at, null).length, 1);
});

test("two sides are compared token by token and at the same depth", () => {
  assert.deepEqual(
    [0, 1, 2].map((layer) => level(layer, 3, 6)),
    [1, 3, 5],
  );
  assert.equal(level(2, 6, 6), 2);
  /** @type {any} */
  const field = { variable: "map", read: "own", place: 0 };
  const less = { ...data, tokens: [tokens[0], tokens[2]], layers: [1], cache: new Map(), variables: {} };
  less.variables.map = { ...data.variables.map, shape: [1, 2, 2], values: Float32Array.of(0.9, 0.1, 0.2, 0.8) };
  const found = contrasted({ data, field, heading: "" }, { data: less, field, heading: "" }, 1);
  assert.deepEqual([...found.partner], [0, -1, 1]);
  const expected = [0.9 - 1, NaN, 0.8 - 0.5, 0.9 - 1, NaN, 0.8 - 0.6];
  for (const [place, value] of found.difference.entries())
    assert.ok(Number.isNaN(expected[place]) ? Number.isNaN(value) : Math.abs(value - expected[place]) < 1e-6);
});
