// @ts-check
// The page of two texts, a source and its answer: that of one text, and how their words belong together.

import { boot as opened } from "./page.js";
import * as alignment from "./views/alignment.js";

export async function boot() {
  await opened({ alignment });
}
