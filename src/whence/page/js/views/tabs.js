// The names of the views: one is chosen; arrow keys go along.

import { h, once } from "../core/dom.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

export function render(container, views, view, choose) {
  const held = once(container, () => new Map());
  for (const [name, title] of views)
    if (!held.has(name))
      held.set(name, h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": name }, title));
  const order = views.map(([name]) => held.get(name));
  if (order.some((tab, place) => container.children[place] !== tab) || container.children.length !== order.length)
    container.replaceChildren(...order);
  for (const [place, [name]] of views.entries()) {
    const tab = order[place],
      picked = name === view;
    tab.setAttribute("aria-selected", String(picked));
    tab.tabIndex = picked ? 0 : -1;
    tab.onclick = () => choose(name);
    tab.onkeydown = (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      const next = Math.min(Math.max(place + STEPS[event.key], 0), order.length - 1);
      choose(views[next][0]);
      order[next].focus();
    };
    if (picked && container.scrollWidth > container.clientWidth)
      container.scrollLeft = tab.offsetLeft - (container.clientWidth - tab.offsetWidth) / 2;
  }
}
