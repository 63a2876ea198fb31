// @ts-check
// Words that are explained: found in a sentence, told on hover, and with one click or key.

import { announce, h, hush, tell } from "./dom.js";

/**
 * The sentence in pieces, each term once, the first time it occurs as a word of its own.
 * @param {string} text @param {Record<string, string>} terms  the longest first
 * @returns {(string | { term: string, meaning: string })[]}
 */
export function piecesOf(text, terms) {
  const names = Object.keys(terms).map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!names.length) return [text];
  const known = Object.fromEntries(Object.entries(terms).map(([name, meaning]) => [name.toLowerCase(), meaning])),
    seen = new Set(),
    pieces = [];
  let from = 0;
  for (const { 0: term, index } of text.matchAll(
    new RegExp(`(?<![\\p{L}\\p{N}“\u2068])(?:${names.join("|")})(?![\\p{L}\\p{N}”\u2069-])`, "giu"),
  )) {
    const key = term.toLowerCase();
    if (seen.has(key)) continue;
    seen.add(key);
    pieces.push(text.slice(from, index), { term, meaning: known[key] });
    from = index + term.length;
  }
  return [...pieces, text.slice(from)].filter((piece) => piece !== "");
}

/** The sentence with its terms to be pointed at. @param {string} text @param {Record<string, string>} [terms] */
export function explained(text, terms = {}) {
  return piecesOf(text, terms).map((piece) => (typeof piece === "string" ? piece : term(piece)));
}

function term({ term, meaning }) {
  const show = (event) => tell(event, `${term}: ${meaning}`),
    below = ({ currentTarget }) => {
      const { left, bottom } = currentTarget.getBoundingClientRect();
      show({ clientX: left, clientY: bottom });
    };
  const act = {
    ...{
      onpointermove: show,
      onpointerleave: hush,
      onblur: hush,
      onkeydown: ({ key }) => void (key === "Escape" && hush()),
    },
    onclick: (event) => {
      below(event);
      announce(`${term}: ${meaning}`);
    },
  };
  return h("button", { type: "button", class: "term", ...act }, term);
}
