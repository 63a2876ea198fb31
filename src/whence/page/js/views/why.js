// @ts-check
// Why: one prediction in full. Rather than what, summed up by what, at which depth; and what the model says next.

import { h, hide, kept, once, select } from "../core/dom.js";
import { choice } from "../core/explained.js";
import * as depths from "./depths.js";
import * as reasons from "./reasons.js";

/**
 * @typedef {import("../core/data.js").Data} Data
 * @typedef {import("../core/state.js").State} State
 * @typedef {import("../core/explained.js").Explained} Explained
 */

/** @type {import("../page.js").Render} */
export function render(container, data, state) {
  const parts = once(container, () => build(container)),
    { why } = data;
  if (state.live) ask(parts.asking, data, state);
  parts.waiting.hidden = Boolean(why);
  parts.body.hidden = !why;
  if (!why) return;
  const position = state.at === "" ? state.token : state.at,
    chosen = choice(why, { token: position, layer: Number(state.depth) || 0, show: "" }),
    go = (layer) => state.set({ depth: layer });
  const colors = why.palette[state.shade],
    drawn = [chosen.at, chosen.layer, state.shade, parts.grid.dataset.token, container.clientWidth].join(" ");
  if (parts.why === why && parts.drawn === drawn) return; // another token is chosen, of which it does not speak
  Object.assign(parts, { why, drawn });
  parts.heading.textContent = why.words.depths;
  depths.render(parts.grid, why, chosen, colors, go);
  reasons.render(parts.below, why, go, chosen, colors);
}

/** @param {HTMLElement} container */
function build(container) {
  const waiting = h("h2", {}, "What is predicted is still being found out …"),
    asking = h("div", { class: "choices asking" }),
    heading = h("h3", {}),
    grid = h("div", {}),
    below = h("div", {}),
    body = h("div", {}, below, h("div", { class: "depths" }, heading, grid));
  container.append(asking, waiting, body);
  return { waiting, asking, heading, grid, below, body, why: null, drawn: "" };
}

const SPANS = ["", "word", "sentence", "line", "paragraph", "turn"];

/** What can be asked of a model that is at hand. @param {HTMLElement} parent @param {Data} data @param {State} state */
function ask(parent, data, state) {
  const { live } = state,
    can = live.can(data.attrs.model),
    one = data.why?.predicted[0];
  const others = one ? one.alternatives.map(([name], place) => [String(one.ids[place]), name]) : [];
  const rather = [["", "the second choice"], ["none", "no other: its own logit"], ...others.slice(1)];
  select(parent, "rather", "Rather than", rather, state.rather ?? "", (value) => live.ask({ rather: value }));
  const spans = SPANS.map((name) => [name, name || "token"]);
  select(parent, "spans", "Sum up by", spans, state.spans ?? "", (value) => live.ask({ spans: value }));
  const said = live.answer(),
    tools = kept(parent, "answer", () => answering());
  hide(tools.whole, !can.answer, parent);
  hide(tools.chat, !can.chat, parent);
  tools.box.checked = state.chat === "1";
  tools.box.onchange = () => live.ask({ chat: tools.box.checked ? "1" : "" });
  tools.go.textContent = said.open ? "Stop" : said.tokens.length ? "Answer again" : "Let it answer";
  tools.go.onclick = () => live.ask({ generate: said.open ? String(said.tokens.length) : tools.count.value });
  tools.said.textContent = said.open ? said.text : "";
}

function answering() {
  const box = h("input", { type: "checkbox", id: "chat" }),
    count = h("input", { type: "number", min: "1", max: "200", value: "20", "aria-label": "tokens of the answer" }),
    go = h("button", { type: "button", class: "answer" }),
    said = h("span", { class: "said", "aria-live": "polite" }),
    chat = h("label", { class: "choice" }, box, "as a chat"),
    whole = h("span", { class: "choice" }, go, count, h("span", {}, "tokens"), chat, said);
  return { whole, box, count, go, said, chat };
}
