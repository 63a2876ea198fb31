// @ts-check
// Flow: tokens are columns, layers rows, the input at the bottom; links show what rises from one layer to the next.

import { called, largest, listed, part, perHead as byHead, title, wording } from "../core/data.js";
import { h, once, select, slider, textWidth } from "../core/dom.js";
import { figure } from "../core/figure.js";
import { roomIn } from "../core/grid.js";
import { flowLayout, isCrowded, nearby } from "../core/layout.js";
import { automatic, network, rowOf } from "./network.js";
import { highlights, marks, paint, vector } from "./river.js";
import { percent } from "../core/scale.js";
import { chosen } from "../core/state.js";
import { walkable } from "../core/walk.js";

/** @type {string[][]} */
const MODES = [
  ["into", "into the chosen token"],
  ["all", "between all tokens"],
];
const WAITING = "The flow is drawn by it, because it is exact; cancel, and it is drawn by what is there.";
const HEADER = ["map", "from_layer", "source", "source_token", "to_layer", "target", "target_token"];

export function perHead(data, state) {
  return byHead(data, chosen(state.flow, options(data)));
}

/** @type {import("../page.js").Render} */
export function render(container, data, state, palette) {
  const { held, say, choices, body, leave } = figure(container, data, "flow");
  const awaited = state.flow ? null : state.live?.awaited("flow");
  choices.hidden = body.hidden = leave.hidden = Boolean(awaited);
  if (awaited) return say(`Measuring ${awaited}`, WAITING);
  const name = chosen(state.flow, options(data)),
    mode = chosen(state.links, MODES),
    count = data.tokens.length;
  select(choices, "flow", "By", options(data), name, (value) => state.set({ flow: value, least: "" }));
  select(choices, "links", "Links", MODES, mode, (value) => state.set({ links: value, least: "" }));
  const net = network(data, name, state, mode),
    least = state.least === "" ? automatic(net, count, mode) : state.least;
  slider(choices, "least", "At least", least, percent, (value) => state.set({ least: value }));
  const kept = net.links.filter((link) => Math.abs(link.strength) >= least);
  say(finding(data, net, name, state), subtitle(data, net, name, mode, kept));

  const room = roomIn(body),
    compact = isCrowded(count, room),
    around = compact ? nearby(count, state.token, room) : null;
  const parts = once(body, () => ({
    whole: frame(body),
    caption: body.appendChild(h("p", { class: "closer" })),
    close: frame(body),
  }));
  const picture = { net, kept, data, state, palette, mode, compact, around },
    widths = data.tokens.map(({ shown }) => textWidth(shown, 12)),
    place = (columns, small) => flowLayout(net.rows.length, widths, room, { columns, compact: small });
  show(parts.whole, picture, place([0, count], compact), name);
  parts.close.element.hidden = parts.caption.hidden = !compact;
  if (compact) {
    parts.caption.textContent = `A closer look at tokens ${around[0]} to ${around[1] - 1} of ${count}`;
    show(parts.close, { ...picture, compact: false, around: null }, place(around, false), name);
  }
  held.pictures = (colors) => [vector({ ...picture, palette: colors, around: null }, place([0, count], compact))];
  held.table = () => table(data, net, name, kept);
}

function table(data, net, name, kept) {
  const rows = kept.toReversed().map(({ from, source, to, target, weight, strength }) => {
    const [below, above] = [data.tokens[source].text, data.tokens[target].text];
    return [name, net.rows[from], source, below, net.rows[to], target, above, weight, strength];
  });
  return { header: [...HEADER, "share", "share_of_the_flow"], rows };
}

/** @returns {string[][]} */
function options(data) {
  return data.flows.map((name) => [name, title(data, name)]);
}

function finding(data, net, name, state) {
  const format = part(data, name);
  const parts = largest(net.input, 3, 0.005).map(
    (source) => `${source === state.token ? "itself" : `“${called(data, source)}”`} (${format(net.input[source])})`,
  );
  return `“${called(data, state.token)}” in layer ${data.layers[state.layer]} goes back to ${listed(parts)}`;
}

function subtitle(data, net, name, mode, kept) {
  const { paths, verb, to } = wording(data, name),
    all = net.head === "mean" ? `, mean of ${data.heads} heads` : `, head ${net.head}`,
    into = mode === "into" ? "share of the flow into the chosen token" : `how much a row ${verb} ${to} a source`;
  const [some, whole] = [kept, net.links].map(({ length }) => length.toLocaleString("en"));
  const by = `Links by ${title(data, name)}${byHead(data, name) ? all : ""}`;
  return `${by}; width: ${into}. ${paths}. ${some} of ${whole} links are drawn.`;
}

function frame(body) {
  const base = h("canvas", {}),
    over = h("canvas", { class: "over" }),
    look = { class: "grid flow", tabindex: "0", role: "application", "aria-roledescription": "flow diagram" };
  return { element: body.appendChild(h("div", look, base, over)), base, over };
}

/**
 * @param {ReturnType<typeof frame>} parts @param {import("./river.js").Picture} picture
 * @param {import("./river.js").At} at @param {string} name
 */
function show({ element, base, over }, picture, at, name) {
  const { data, state, net } = picture,
    format = part(data, name),
    { to } = wording(data, name);
  const describe = ({ row, column }) => {
    const links = net.links.filter((link) => link.to === row && link.target === column);
    const sources = links.sort((one, other) => other.weight - one.weight).slice(0, 3);
    const where = row === 0 ? "input" : `layer ${net.rows[row]}`;
    return [
      `${called(data, column)} (${column}), ${where}`,
      ...sources.map(({ weight, source }) => `${format(weight)} ${to} ${called(data, source)} (${source})`),
    ].join("\n");
  };
  const hover = (cell) => paint(over, highlights(picture, at, cell), at);
  paint(base, marks(picture, at), at);
  hover(null);
  const here = describe({ row: rowOf(net, state.layer), column: state.token });
  element.setAttribute("aria-label", `Flow, layers by tokens. Arrow keys move. ${here}`);
  let shown = "";
  walkable(element, {
    at,
    describe,
    hover: (cell) => {
      if (shown !== JSON.stringify(cell)) hover(cell);
      shown = JSON.stringify(cell);
    },
    pick: ({ row, column }) => {
      const layer = row === 0 ? state.layer : data.layers.indexOf(net.rows[row]);
      state.set({ token: column, source: column, layer });
    },
    keys: {
      ...{ here: { row: state.layer, column: state.token }, rows: data.layers.length, columns: data.tokens.length },
      go: ({ row, column }) => state.set({ token: column, source: column, layer: row }),
      say: ({ row, column }) => `${called(data, column)}, layer ${data.layers[row]}`,
    },
  });
}
