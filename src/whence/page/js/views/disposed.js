// @ts-check
// What every state is disposed to say: layers by tokens, the best token of each, shaded by its probability.

import { h, once } from "../core/dom.js";
import { inkOn, percent, scale } from "../core/scale.js";

/**
 * @typedef {import("../whither.js").Lensed} Lensed
 * @typedef {import("../whither.js").Selected} Selected
 * @typedef {import("../whither.js").Cell} Cell
 * @typedef {import("../core/scale.js").Palette} Palette
 */

/**
 * @param {HTMLElement} container @param {Lensed} data @param {Selected} selected @param {Palette} palette
 * @param {(change: Partial<Selected>) => void} set
 */
export function render(container, data, selected, palette, set) {
  const parts = once(container, () => build(container, data, set));
  const shade = scale(palette, 1, false);
  for (const [row, cells] of parts.cells.entries())
    for (const [column, button] of cells.entries()) {
      const cell = data.tokens[column].layers[row][selected.lens],
        [token, probability] = cell.best[0];
      button.textContent = token;
      button.style.backgroundColor = shade.color(probability);
      button.style.color = inkOn(shade.rgb(probability));
      button.style.fontWeight = cell.place === 1 ? "600" : "";
      const here = row === selected.layer && column === selected.token;
      button.setAttribute("aria-pressed", String(here));
      button.title = described(data, row, column, cell);
      button.setAttribute("aria-label", button.title);
    }
  for (const [row, share] of parts.agreement.entries())
    share.textContent = data.agreement[selected.lens] ? percent(data.agreement[selected.lens][row]) : "";
  detail(parts.detail, data, selected);
}

/** @param {Lensed} data @param {number} row @param {number} column @param {Cell} cell */
function described(data, row, column, { best, place }) {
  const { token, answer } = data.tokens[column],
    [said, probability] = best[0];
  return `${token}, layer ${data.layers[row]}: ${said} (${percent(probability)}); ${answer} is in place ${place}`;
}

/** @param {HTMLElement} container @param {Lensed} data @param {(change: Partial<Selected>) => void} set */
function build(container, data, set) {
  const several = data.tokens.length > 1;
  const heads = data.tokens.map(({ token }) => h("th", { scope: "col", dir: "auto" }, token)),
    agreement = data.layers.map(() => h("td", { class: "number" }));
  const cells = data.layers.map((_, layer) =>
    data.tokens.map((__, token) =>
      h("button", { type: "button", class: "said", onclick: () => set({ layer, token }) }),
    ),
  );
  const body = data.layers.map((layer, row) => [row, h("tr", {}, h("th", { scope: "row" }, String(layer)))]);
  for (const [row, line] of /** @type {[number, HTMLElement][]} */ (body)) {
    line.append(...cells[row].map((button) => h("td", {}, button)));
    if (several) line.append(agreement[row]);
  }
  const last = several ? [h("th", { scope: "col" }, "says what the model says")] : [];
  const head = h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "layer"), ...heads, ...last)),
    lines = body.map(([, line]) => /** @type {HTMLElement} */ (line)).reverse(),
    table = h("table", { class: "disposed" }, head, h("tbody", {}, ...lines));
  const key =
      "The best token of each state by the chosen lens, darker the more probable; bold where it is the model’s own.",
    found = h("div", { "aria-live": "polite" });
  container.append(h("h2", {}, "What each state is disposed to say"), h("p", { class: "subtitle" }, key));
  container.append(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "States" }, table), found);
  return { cells, agreement, detail: found };
}

/** The chosen state by every lens. @param {HTMLElement} container @param {Lensed} data @param {Selected} selected */
function detail(container, data, { token, layer }) {
  const { token: name, answer, layers, probability } = data.tokens[token];
  const blocks = data.lenses.map(({ name: lens, title }) => {
    const { best, place, answer_probability: own } = layers[layer][lens];
    const rows = best.map(([word, share, error]) =>
      h("tr", {}, h("td", { dir: "auto" }, word), h("td", { class: "number" }, sure(share, error))),
    );
    const note = `${answer}: place ${place.toLocaleString("en")}, ${percent(own)}`;
    return h(
      "div",
      {},
      h("h3", {}, title),
      h("table", {}, h("tbody", {}, ...rows)),
      h("p", { class: "subtitle" }, note),
    );
  });
  const heading = `“${name}” at layer ${data.layers[layer]}; the model says “${answer}” (${percent(probability)})`;
  container.replaceChildren(h("h3", {}, heading), h("div", { class: "besides" }, ...blocks));
}

/** A probability with its standard error, where that is known. @param {number} share @param {number | null} error */
export function sure(share, error) {
  return error === null || error < 0.0005
    ? percent(share)
    : `${percent(share).replace(/\s?%$/, "")} ± ${percent(error)}`;
}
