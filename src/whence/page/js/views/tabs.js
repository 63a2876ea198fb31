// @ts-check
// The names of the views: one is chosen; arrow keys go along.

import { h, once } from "../core/dom.js";
import { roving } from "../core/walk.js";

/**
 * @param {HTMLElement} container @param {string[][]} views @param {string} view
 * @param {(name: string) => void} choose
 */
export function render(container, views, view, choose) {
  const held = once(container, () => new Map());
  for (const [name, title, about] of views) {
    const look = { type: "button", role: "tab", title: about, id: `tab-${name}`, "aria-controls": name };
    if (!held.has(name)) held.set(name, h("button", { ...look, onclick: () => held.choose(name) }, title));
  }
  held.choose = choose;
  const order = views.map(([name]) => held.get(name)),
    at = views.findIndex(([name]) => name === view);
  if (order.some((tab, place) => container.children[place] !== tab) || container.children.length !== order.length)
    container.replaceChildren(...order);
  roving(container, order, at, (place) => choose(views[place][0]));
  for (const [place, tab] of order.entries()) tab.setAttribute("aria-selected", String(place === at));
  if (at >= 0 && container.scrollWidth > container.clientWidth)
    container.scrollLeft = order[at].offsetLeft - (container.clientWidth - order[at].offsetWidth) / 2;
}
