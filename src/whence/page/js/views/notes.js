// @ts-check
// The foot of the page: what the words mean and where every number came from.

import { h } from "../core/dom.js";

const PROVENANCE = ["model", "revision", "family", "dtype", "device", "measures", "seed", "whence_version"];
PROVENANCE.push("torch_version", "transformers_version", "schema");

/** @param {HTMLElement} container @param {import("../core/data.js").Data} data */
export function render(container, data) {
  const list = (summary, pairs) => {
    const rows = pairs.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, text))]);
    return h("details", {}, h("summary", {}, summary), h("dl", {}, ...rows));
  };
  /** @type {Map<string, string>} */
  const meanings = new Map();
  for (const { title, meaning } of Object.values(data.styles)) if (meaning) meanings.set(title, meaning);
  const known = PROVENANCE.filter((name) => data.attrs[name]);
  container.replaceChildren(
    list("What the measures are", [...meanings]),
    list(
      "Where the numbers come from",
      known.map((name) => [name.replaceAll("_", " "), data.attrs[name]]),
    ),
  );
}
