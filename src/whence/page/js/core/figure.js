// @ts-check
// The frame every panel shares: a title that says the finding, what was measured, choices, pictures, ways out.

import { h, once } from "./dom.js";
import { buttons } from "./leave.js";
import { explained } from "./terms.js";

/**
 * @typedef {import("./leave.js").Table} Table
 * @typedef {import("./scale.js").Palette} Palette
 * @typedef {{ pictures(palette: Palette): SVGElement[], table(): Table, also: { name: string, table(): Table } | null,
 *   palette: Palette, name: string, title: string, subtitle: string, told: string,
 *   credit: string }} Held  what can leave, on white whatever the theme; `also` is a second table, for what is drawn
 *   beside the first
 * @typedef {{ held: Held, say(title: string, subtitle: string, also?: Held["also"]): void, choices: HTMLElement,
 *   body: HTMLElement, leave: HTMLElement }} Figure
 */

/**
 * @param {HTMLElement} container @param {import("./data.js").Data} data @param {string} name @returns {Figure}
 */
export function figure(container, data, name) {
  return once(container, () => {
    /** @type {Held} */
    const held = {
      pictures: null,
      table: null,
      also: null,
      palette: data.palette.light,
      title: "",
      subtitle: "",
      credit: data.credit ?? "",
      name,
      told: "",
    };
    const heading = h("h2", {}),
      below = h("p", { class: "subtitle" }),
      choices = h("div", { class: "choices" }),
      body = h("div", { class: "pictures" }),
      out = buttons(held);
    container.append(heading, below, choices, body, out.row, out.shown);
    const say = (title, subtitle, also = null) => {
      Object.assign(held, { title, subtitle, also });
      heading.textContent = title;
      if (held.told !== subtitle) below.replaceChildren(...explained(subtitle, data.terms));
      held.told = subtitle;
      out.fresh();
    };
    return { held, say, choices, body, leave: out.row };
  });
}
