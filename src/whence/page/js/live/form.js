// What the page asks the reader: a sentence, a model, and what else to measure.

import { h, hide } from "../core/dom.js";

const SOON = 400; // milliseconds after which work is worth scrolling to

// Builds the form; what comes back reads and writes it and says how the work goes.
export function form(container, { models, measures }, { submit, cancel, save, more, contribute }) {
  const text = h("textarea", {
    rows: "2",
    id: "text",
    dir: "auto",
    spellcheck: "false",
    placeholder: "Type a sentence; [MASK] hides a word",
    "aria-label": "Sentence",
  });
  const pair = h("textarea", {
    rows: "1",
    id: "pair",
    dir: "auto",
    spellcheck: "false",
    placeholder: "A second sentence that the model reads with the first",
    "aria-label": "Second sentence",
  });
  const second = h("button", { type: "button", class: "quiet" }, "Second sentence"),
    go = h("button", { type: "submit", class: "go" }, "Measure");
  const model = h(
    "select",
    { id: "model", "aria-label": "Model" },
    ...models.map(({ name }) => h("option", { value: name }, name)),
  );
  const truncate = h("input", { type: "checkbox", id: "truncate" });
  const ways = [
    ["HTML", "one file that opens offline"],
    ["netCDF", "all numbers, for Python and others"],
    ["Link", "copy the address of this very view"],
  ];
  const leave = ways.map(([name, why]) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        title: why,
        "aria-label": name === "Link" ? "Copy the link" : `Save as ${name}: ${why}`,
        onclick: () => save(name),
      },
      name,
    ),
  );
  const boxes = new Map(),
    list = h("div", { class: "boxes" });
  const extra = h(
    "details",
    {},
    h("summary", {}, "More measures"),
    list,
    h("label", { class: "choice" }, truncate, "cut off what is longer than the model takes"),
  );
  const bar = h("progress", { "aria-label": "Progress" }),
    said = h("span", { class: "said", role: "status" }),
    stop = h("button", { type: "button", class: "quiet", onclick: cancel }, "Cancel");
  const long = h("span", {}),
    offered = h(
      "p",
      { class: "offer", hidden: "" },
      long,
      h("button", { type: "button", onclick: contribute }, "Measure contribution"),
    );
  const work = h("div", { class: "work" }, bar, said, stop),
    alarm = h("p", { class: "alarm", role: "alert" });
  const whole = h(
    "form",
    { class: "ask", "aria-label": "What to measure" },
    text,
    pair,
    h(
      "div",
      { class: "choices" },
      go,
      h("label", { class: "choice", hidden: models.length > 1 ? null : "" }, h("span", {}, "Model"), model),
      second,
      extra,
      h("span", { class: "ways" }, "Save", ...leave),
    ),
    work,
    offered,
    alarm,
  );
  const show = (open) => {
    pair.hidden = !open;
    second.textContent = open ? "One sentence" : "Second sentence";
    second.setAttribute("aria-expanded", String(open));
    if (!open) pair.value = "";
  };
  second.onclick = () => {
    show(pair.hidden);
    if (!pair.hidden) pair.focus();
  };
  whole.onsubmit = (event) => {
    event.preventDefault();
    submit();
  };
  for (const field of [text, pair])
    field.onkeydown = (event) => {
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        submit();
      }
    };
  container.append(whole);
  const seen = (element) => element.scrollIntoView({ block: "nearest" });
  let waiting = 0;

  const offer = () => {
    const { measures: given } = models.find(({ name }) => name === model.value);
    const wanted = asked().measures.split(",");
    list.replaceChildren(
      ...given
        .filter((name) => !USUAL.includes(name))
        .map((name) => {
          const box = h("input", { type: "checkbox", value: name, onchange: more });
          box.checked = wanted.includes(name);
          boxes.set(name, box);
          return h(
            "label",
            { class: "choice", title: measures[name].about },
            box,
            `${name}${measures[name].slow ? " (slow)" : ""}`,
          );
        }),
    );
  };
  const asked = () => ({
    text: text.value,
    pair: pair.hidden ? "" : pair.value,
    model: model.value,
    measures: [...boxes.values()]
      .filter((box) => box.checked)
      .map((box) => box.value)
      .join(","),
    truncate: truncate.checked ? "1" : "",
  });
  model.onchange = offer;
  truncate.onchange = more;
  return {
    asked,
    fill(values) {
      text.value = values.text ?? "";
      show(Boolean(values.pair));
      pair.value = values.pair ?? "";
      if (models.some(({ name }) => name === values.model)) model.value = values.model;
      truncate.checked = values.truncate === "1";
      offer();
      for (const [name, box] of boxes) box.checked = (values.measures ?? "").split(",").includes(name);
    },
    working(sentence, share) {
      if (!sentence) {
        clearTimeout(waiting);
        waiting = 0;
      } else waiting ||= setTimeout(seen, SOON, work);
      work.dataset.busy = String(Boolean(sentence));
      bar.hidden = !sentence;
      hide(stop, !sentence, go);
      said.textContent = sentence;
      if (share >= 0) bar.value = share;
      else bar.removeAttribute("value");
    },
    suggest(sentence) {
      hide(offered, !sentence, stop);
      long.textContent = sentence;
    },
    complain(sentence) {
      alarm.textContent = sentence;
      if (sentence) seen(alarm);
    },
    note(sentence) {
      said.textContent = sentence;
    },
  };
}

// Measured without being asked for; the rest is offered.
export const USUAL = ["attention", "mixing", "norms", "effective", "null", "value_rank", "head"];
