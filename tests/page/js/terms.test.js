// @ts-check
// Terms are found as words of their own, once each, and never inside a quoted token.

import assert from "node:assert/strict";
import { test } from "node:test";

import { piecesOf } from "../../../src/whence/page/js/core/terms.js";

const terms = { "effective attention": "one", attention: "two", "lnorm-w": "three" };

test("each term once, the longest first, whatever its case", () => {
  assert.deepEqual(piecesOf("Effective attention is attention; attention is all.", terms), [
    { term: "Effective attention", meaning: "one" },
    " is ",
    { term: "attention", meaning: "two" },
    "; attention is all.",
  ]);
});

test("parts of words and tokens in quotes stay as they are", () => {
  assert.deepEqual(piecesOf("inattention and “\u2068attention\u2069” and lnorm-wx", terms), [
    "inattention and “\u2068attention\u2069” and lnorm-wx",
  ]);
  assert.deepEqual(piecesOf("at lnorm-w.", terms), ["at ", { term: "lnorm-w", meaning: "three" }, "."]);
  assert.deepEqual(piecesOf("nothing", {}), ["nothing"]);
});
