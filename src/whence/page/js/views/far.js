// @ts-check
// Maps of a text too long for those of all layers: one layer at a time, measured when asked for.

import { map } from "../core/data.js";
import { h, hide, kept, once, select } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { drawing, grid } from "../core/grid.js";
import { finding, spec } from "./maps.js";
import { limit } from "../core/scale.js";

const MEAN = "mean";

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body, leave } = figure(container, data, "map"),
    { live } = state,
    [layer, head] = (state.far || `${data.layers.at(-1)} ${MEAN}`).split(" "),
    ask = (far) => live.ask({ far });
  const layers = data.layers.map((one) => [String(one), String(one)]).reverse(),
    heads = Array.from({ length: live.heads(data.attrs.model) }, (_, one) => [String(one), String(one)]);
  select(choices, "far-layer", "Layer", layers, layer, (value) => ask(`${value} ${head}`));
  select(choices, "far-head", "Head", [[MEAN, "mean of all"], ...heads], head, (value) => ask(`${layer} ${value}`));
  const go = kept(choices, "go", () => h("button", { type: "button", class: "go" }));
  go.textContent = `Measure layer ${layer}`;
  go.onclick = () => ask(`${layer} ${head}`);
  hide(go, Boolean(state.far), choices);
  const one = data.far?.key === state.far ? data.far : null,
    count = data.tokens.length,
    pairs = `${count.toLocaleString("en")} tokens are ${(count ** 2 / 1e6).toPrecision(2)} million pairs in every`;
  body.hidden = leave.hidden = !one;
  if (!one) {
    const waits = state.far && live.busy() ? `Measuring layer ${layer} …` : "One layer at a time";
    return say(waits, `${pairs} head of every layer, so one layer is measured at a time, and when you ask for it.`);
  }
  const [name] = one.head_maps,
    values = map(one, name, 0),
    here = { ...state, layer: 0, head: /** @type {"mean"} */ (MEAN) };
  const which = head === MEAN ? `Mean of ${heads.length} heads.` : `Head ${head}.`;
  say(
    finding(one, name, values, here),
    `Rows attend to columns. ${which} ${pairs} head; each spot shows the largest of its pairs.`,
  );
  const drawn = (colors) => spec(one, here, colors, name, values, limit(values), false),
    main = once(body, () => body.appendChild(h("div", { class: "one" })));
  grid(main, drawn(palette), palette);
  held.pictures = (colors) => [drawing(main, drawn(colors), colors)];
  held.table = () => table(one, values, { name, layer, head, token: state.token });
}

/** The row of the chosen token: all of them would be millions. */
function table({ tokens }, values, { name, layer, head, token }) {
  const row = values.subarray(token * tokens.length, (token + 1) * tokens.length);
  return {
    header: ["map", "layer", "head", "target", "target_token", "source", "source_token", "value"],
    rows: tokens.map(({ text }, source) => [name, layer, head, token, tokens[token].text, source, text, row[source]]),
  };
}
