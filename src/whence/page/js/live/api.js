// @ts-check
// What the page asks the server, and how the answers are read.

import { open } from "../core/data.js";

const SILENT = "The server does not answer; start it again (whence serve), then measure again.";
const PATIENCE = 2000; // milliseconds the browser may try to reach a server that was lost

// The token is a cookie by now; out of the address it is not shown, kept in the history or copied with a link.
const asked = new URLSearchParams(location.search);
if (asked.has("token")) history.replaceState(null, "", location.pathname + location.hash);

// A refusal: the server's sentence.
export class Refused extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

export async function about() {
  return read(await reached("/api/about"), "json");
}

// The key of a result, when it is there. `told` hears { waiting } or { done, of } meanwhile; `signal` gives it up.
export async function measured(ask, { told, signal }) {
  for (;;) {
    const answer = await reached("/api/measure", { ...posted(ask), signal });
    if (answer.status === 429) {
      const seconds = Number(answer.headers.get("Retry-After")) || 1;
      told({ busy: seconds });
      await pause(seconds * 1000, signal);
      continue;
    }
    const { key, ticket } = await read(answer, "json", signal);
    if (ticket) await ended(ticket, told, signal);
    return key;
  }
}

// The results with these keys as one sentence; arrays it had `before` are not sent again.
export async function received(keys, before, signal) {
  const have = Object.keys(before?.variables ?? {}).join(",");
  return arrays(`/api/results/${keys.join(",")}?have=${encodeURIComponent(have)}`, before, signal);
}

// The attention of one layer, of a head or the mean of all: of the result with this key.
export async function oneMap(key, head, signal) {
  return arrays(`/api/map/${key}/${head}`, null, signal);
}

async function arrays(address, before, signal) {
  const answer = await reached(address, { signal });
  const buffer = await read(answer, "arrayBuffer", signal),
    length = new DataView(buffer).getUint32(0, true);
  const payload = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return open(payload, { bytes: { buffer, start: 4 + length }, before });
}

// Why a prediction is made: the result with this key.
export async function reasons(key, signal) {
  return open(await read(await reached(`/api/why/${key}`, { signal }), "json", signal));
}

// One hidden token from both sides: the result with this key.
export async function lensed(key, signal) {
  return read(await reached(`/api/lens/${key}`, { signal }), "json", signal);
}

// What a decoder said: the result with this key.
export async function answer(key, signal) {
  return read(await reached(`/api/answer/${key}`, { signal }), "json", signal);
}

export async function page(wanted) {
  return read(await reached("/api/page", posted(wanted)), "blob");
}

export async function netcdf(keys) {
  return read(await reached(`/api/netcdf/${keys.join(",")}`), "blob");
}

function posted(content) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) };
}

/** @param {string} address @param {RequestInit} options */
function reached(address, options = {}) {
  return heard(() => fetch(address, options), options.signal);
}

// What an answer holds: "json", "blob" or "arrayBuffer".
async function read(answer, kind, signal = null) {
  await answered(answer);
  return heard(() => answer[kind](), signal);
}

// A connection may be lost before the answer or in the middle of it; both are TypeErrors.
async function heard(act, signal) {
  try {
    return await act();
  } catch (error) {
    throw error instanceof TypeError && !signal?.aborted ? new Refused(SILENT, 0) : error;
  }
}

async function answered(answer) {
  if (answer.ok) return;
  const { error } = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  throw new Refused(error, answer.status);
}

function ended(ticket, told, signal) {
  return new Promise((done, failed) => {
    const source = new EventSource(`/api/jobs/${ticket}/events`);
    /** @type {any} */
    let lost = 0;
    const leave = () => {
      source.close();
      clearTimeout(lost);
      signal.removeEventListener("abort", give);
    };
    const give = () => {
      leave();
      fetch(`/api/jobs/${ticket}`, { method: "DELETE", keepalive: true }).catch(() => {});
      failed(signal.reason);
    };
    const close = (act) => (event) => {
      leave();
      act(JSON.parse(event.data));
    };
    const gone = (sentence) => {
      leave();
      failed(new Refused(sentence, 0));
    };
    source.addEventListener("waiting", (event) => told({ waiting: JSON.parse(event.data).ahead }));
    source.addEventListener("progress", (event) => told(JSON.parse(event.data)));
    source.addEventListener("done", close(done));
    const refuse = close(({ error, status }) => failed(new Refused(error, status)));
    for (const kind of ["failed", "cancelled"]) source.addEventListener(kind, refuse);
    source.onopen = () => {
      clearTimeout(lost);
      lost = 0;
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED)
        gone("The server has lost this computation; measure the sentence again.");
      else lost ||= setTimeout(gone, PATIENCE, SILENT); // the browser tries again by itself
    };
    signal.addEventListener("abort", give);
    if (signal.aborted) give();
  });
}

function pause(milliseconds, signal) {
  return new Promise((done, failed) => {
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      failed(signal.reason);
    });
  });
}
