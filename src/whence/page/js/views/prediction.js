// Prediction: the best tokens after every step of the LM head, the last step on top.

import { MONO, SANS, fitted, h, hide, once, select, svg, textWidth } from "../core/dom.js";
import { figure } from "../core/figure.js";
import * as lens from "./lens.js";
import { inkOn, number, scale } from "../core/scale.js";

const TALL = 28,
  TOP = 22,
  SIZE = 12.5,
  PAD = 7,
  GAP = 5,
  WIDEST = 130;
const ABOUT =
  "Each step’s vector is scored against every token of the vocabulary by inner product; the scores of the last step are the model’s own. Place: where the step puts the token that is predicted in the end. Shade: how high a token stands in the end, among those shown.";

export function render(container, data, state, palette) {
  const { held, say, choices, body, leave } = figure(container, { name: "prediction" });
  const one = asked(data, state);
  if (state.live) offer(choices, data, state);
  body.hidden = leave.hidden = !one;
  if (!one)
    return say(
      "Nothing is predicted yet",
      "Put [MASK] in the place of a word, or ask what the model expects at the chosen token.",
    );
  const options = data.predictions.map(({ position, at, token }) => [String(position), `${at} → ${token}`]);
  select(choices, "asked", data.causal ? "After" : "At", options, one.position, (value) =>
    state.set({ token: Number(value), source: Number(value) }),
  );
  const { main, below } = once(body, () => ({
    main: body.appendChild(h("div", { class: "one" })),
    below: body.appendChild(h("div", { class: "one" })),
  }));
  const picture = () => draw(one, Math.max(main.clientWidth, 320), palette);
  main.replaceChildren(picture());
  const more = lens.render(below, data, one.position, state, palette, draw);
  say(one.finding, ABOUT, more.also);
  held.palette = palette;
  held.pictures = () => [picture(), ...more.pictures()];
  held.table = () => ({
    header: ["position", "token", "stage", "place_of_prediction", "rank", "best", "score"],
    rows: [...one.rows, ...more.rows.map((row) => ({ ...row, stage: `after layer ${row.layer}` }))].flatMap((row) =>
      row.best.map((best, place) => [one.position, one.at, row.stage, row.place, place + 1, best, row.scores[place]]),
    ),
  });
}

// The selected token's, if something is predicted there.
function asked(data, { token }) {
  return data.predictions.find(({ position }) => position === token) ?? data.predictions[0];
}

// Ask for the chosen token too, when the model is at hand.
function offer(choices, data, state) {
  const held = once(choices, () => new Map());
  if (!held.has("offer")) held.set("offer", choices.appendChild(h("button", { type: "button" })));
  const button = held.get("offer"),
    { shown, special } = data.tokens[state.token];
  hide(
    button,
    special || data.predictions.some(({ position }) => position === state.token),
    document.getElementById("tab-prediction"),
  );
  button.textContent = `Predict ${data.causal ? "after" : "at"} “${shown.slice(0, 30)}”`;
  button.onclick = () => state.live.predict(state.token);
}

function draw({ rows, token }, width, palette, title = "") {
  const last = rows.at(-1).best,
    shade = scale(palette, 1, false);
  const names = Math.max(...rows.map((row) => textWidth(row.stage, SIZE)), 40),
    left = names + 84;
  const height = TOP + rows.length * TALL + 4;
  const picture = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "font-size": SIZE,
    "font-family": MONO,
    "data-title": title,
    "aria-label": `Best tokens after each step of the head; predicted: ${token}`,
  });
  const heading = (x, text, anchor = "start") =>
    picture.append(
      svg("text", { x, y: 13, "text-anchor": anchor, "font-family": SANS, "font-size": 11, fill: palette.muted }, text),
    );
  heading(0, "step");
  heading(names + 66, "place", "end");
  heading(left, "best tokens");
  for (const [at, row] of [...rows].reverse().entries()) {
    const middle = TOP + at * TALL + TALL / 2,
      base = middle + SIZE * 0.35;
    picture.append(svg("text", { x: 0, y: base, fill: palette.ink }, row.stage));
    picture.append(
      svg(
        "text",
        { x: names + 66, y: base, "text-anchor": "end", fill: palette.muted },
        row.place.toLocaleString("en"),
      ),
    );
    chips(picture, row, { left, middle, base, width, last, token, shade, palette });
  }
  return picture;
}

function chips(picture, row, { left, middle, base, width, last, token, shade, palette }) {
  let x = left;
  for (const [place, best] of row.best.entries()) {
    const text = fitted(best, WIDEST, SIZE),
      wide = textWidth(text, SIZE) + 2 * PAD;
    if (x + wide > width) return;
    const end = last.indexOf(best),
      amount = end < 0 ? 0 : 0.85 * (1 - end / last.length);
    picture.append(
      svg(
        "g",
        {},
        svg("title", {}, `${best}: ${number(row.scores[place])}${end < 0 ? "" : `; in the end in place ${end + 1}`}`),
        svg("rect", {
          x,
          y: middle - 11,
          width: wide,
          height: 22,
          rx: 5,
          fill: shade.color(amount),
          stroke: best === token ? palette.ink : palette.line,
          "stroke-width": best === token ? 1.5 : 1,
        }),
        svg(
          "text",
          {
            x: x + PAD,
            y: base,
            direction: "ltr",
            "unicode-bidi": "isolate",
            fill: end < 0 ? palette.muted : inkOn(shade.rgb(amount)),
          },
          text,
        ),
      ),
    );
    x += wide + GAP;
  }
}
