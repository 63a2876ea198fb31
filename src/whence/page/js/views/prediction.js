// @ts-check
// Prediction: the best tokens after every step of the LM head, the last step on top.

import { cut } from "../core/data.js";
import { MONO, SANS, fitted, h, hide, kept, once, select, svg, textWidth } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { roomIn } from "../core/grid.js";
import * as lens from "./lens.js";
import { inkOn, number, percent, scale } from "../core/scale.js";

/**
 * @typedef {import("../core/data.js").Step} Step
 * @typedef {import("../core/scale.js").Palette} Palette
 */

const TALL = 28,
  TOP = 22,
  SIZE = 12.5,
  PAD = 7,
  GAP = 5,
  WIDEST = 130,
  CHANCE = 62; // the room of a column of probabilities

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body, leave } = figure(container, data, "prediction"),
    words = data.lm_head;
  const one = data.predictions.find(({ position }) => position === state.token) ?? data.predictions[0];
  if (state.live) offer(choices, data, state);
  body.hidden = leave.hidden = !one;
  if (!one) return say(words.nothing, words.ask);
  const options = data.predictions.map(({ position, at, token }) => [String(position), `${at} → ${token}`]);
  select(choices, "asked", data.causal ? "After" : "At", options, one.position, (value) =>
    state.set({ token: Number(value), source: Number(value) }),
  );
  const { main, below } = once(body, () => ({
    main: body.appendChild(h("div", { class: "one" })),
    below: body.appendChild(h("div", { class: "one" })),
  }));
  const steps = (rows, room, colors, title = "") =>
    draw(rows, room, colors, data.steps, {
      "data-title": title,
      "aria-label": `${words.picture}; predicted: ${one.token}`,
    });
  const rows = one.rows.with(-1, { ...one.rows.at(-1), chances: one.chances, chance: one.chances[0] }),
    picture = (colors) => steps(rows, roomIn(main, 320), colors);
  main.replaceChildren(picture(palette));
  const more = lens.render(below, data, one.position, palette, steps);
  say(one.finding, words.about, more.also);
  held.pictures = (colors) => [picture(colors), ...more.pictures(colors)];
  held.table = () => ({
    header: ["position", "token", "stage", "place_of_prediction", "rank", "best", "score", "probability_of_prediction"],
    rows: [...rows, ...more.rows].flatMap((row) =>
      row.best.map((best, place) => [
        ...[one.position, one.at, row.stage, row.place],
        ...[place + 1, best, row.scores[place], row.chance ?? ""],
      ]),
    ),
  });
}

// Ask for the chosen token too, when the model is at hand.
function offer(choices, data, state) {
  const button = kept(choices, "offer", () => h("button", { type: "button" })),
    { shown, special } = data.tokens[state.token],
    there = data.predictions.some(({ position }) => position === state.token);
  hide(button, special || there, document.getElementById("tab-prediction"));
  button.textContent = `Predict ${data.causal ? "after" : "at"} “${cut(shown, 30)}”`;
  button.onclick = () => state.live.predict(state.token);
}

/**
 * @param {Step[]} rows
 * @param {number} width
 * @param {Palette} palette @param {Record<string, string>} about  what each step is
 */
function draw(rows, width, palette, about, words) {
  const names = Math.max(...rows.map((row) => textWidth(row.stage, SIZE)), 40),
    every = rows.every(({ chance }) => chance !== undefined),
    placed = names + 58,
    left = placed + 18 + (every ? CHANCE : 0),
    height = TOP + rows.length * TALL + 4;
  const picture = svg("svg", {
    ...{ width, height, viewBox: `0 0 ${width} ${height}`, role: "img", ...words },
    ...{ "font-size": SIZE, "font-family": MONO, fill: palette.muted },
  });
  const heading = (x, text, anchor) =>
    svg("text", { x, y: 13, "text-anchor": anchor, "font-family": SANS, "font-size": 11 }, text);
  picture.append(heading(0, "step", "start"), heading(placed, "place", "end"));
  picture.append(heading(left, "best tokens", "start"));
  if (every) picture.append(heading(placed + CHANCE, "probability", "end"));
  for (const [at, row] of rows.toReversed().entries()) {
    const y = TOP + at * TALL + TALL / 2 + SIZE * 0.35;
    picture.append(svg("text", { x: 0, y, fill: palette.ink }, row.stage, svg("title", {}, about[row.stage] ?? "")));
    picture.append(svg("text", { x: placed, y, "text-anchor": "end" }, row.place.toLocaleString("en")));
    if (every) picture.append(svg("text", { x: placed + CHANCE, y, "text-anchor": "end" }, brief(row.chance)));
    picture.append(...chips(row, rows.at(-1).best, left, y, width, palette));
  }
  return picture;
}

/** A probability where there is little room. @param {number} share */
function brief(share) {
  return share < 0.001 ? `<\u20090.1\u00a0%` : percent(share);
}

/** The best tokens of a step, as many as there is room for; those of the last step are shaded. @param {Step} row */
function* chips(row, last, x, y, width, palette) {
  const shade = scale(palette, 1, false);
  for (const [place, best] of row.best.entries()) {
    const chance = row.chances?.[place] === undefined ? "" : ` ${brief(row.chances[place])}`,
      text = `${fitted(best, WIDEST, SIZE)}${chance}`,
      wide = textWidth(text, SIZE) + 2 * PAD;
    if (x + wide > width) return;
    const end = last.indexOf(best),
      amount = end < 0 ? 0 : 0.85 * (1 - end / last.length),
      line = end === 0 ? { stroke: palette.ink, "stroke-width": 1.5 } : { stroke: palette.line };
    const ink = { fill: end < 0 ? palette.muted : inkOn(shade.rgb(amount)), "unicode-bidi": "isolate" };
    const score = `${best}: ${number(row.scores[place])}${end < 0 ? "" : `; in the end in place ${end + 1}`}`;
    yield svg(
      "g",
      {},
      svg("title", {}, score),
      svg("rect", { x, y: y - 15, width: wide, height: 22, rx: 5, fill: shade.color(amount), ...line }),
      svg("text", { x: x + PAD, y, direction: "ltr", ...ink }, text),
    );
    x += wide + GAP;
  }
}
