// The foot of the page: what the words mean and where every number came from.

import { h } from "../core/dom.js";

const PROVENANCE = [
  "model",
  "revision",
  "family",
  "dtype",
  "device",
  "measures",
  "seed",
  "whence_version",
  "torch_version",
  "transformers_version",
  "schema",
];

export function render(container, data) {
  const pair = ([name, text]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, text))];
  const meanings = Object.values(data.styles)
    .filter((label) => label.meaning)
    .map((label) => [label.title, label.meaning]);
  const unique = [...new Map(meanings)];
  const known = PROVENANCE.filter((name) => data.attrs[name]).map((name) => [
    name.replaceAll("_", " "),
    data.attrs[name],
  ]);
  container.replaceChildren(
    h("details", {}, h("summary", {}, "What the measures are"), h("dl", {}, ...unique.flatMap(pair))),
    h("details", {}, h("summary", {}, "Where the numbers come from"), h("dl", {}, ...known.flatMap(pair))),
  );
}
