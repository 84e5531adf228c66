// What the tests have in common.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { EmberError } from "./ember.mjs";

export const root = fileURLToPath(new URL("../../", import.meta.url));
/** The bundled model. */
export const path = `${root}examples/models/ember-tales.gguf`;
/** What all bindings have to give: of a prompt, and of a context that is shifted. */
export const { generate: [golden], shift } = JSON.parse(readFileSync(`${root}tests/golden/bindings.json`));

/** Whether an error is the library's, with this code and these words. */
export const isEmber = (code, says) => (error) => error instanceof EmberError && error.code === code && error.message.includes(says);

/** The events of a generation or a reply, their text, and the last of them. */
export async function all(events) {
  const list = [];
  for await (const event of events) list.push(event);
  return { list, text: list.map((event) => event.text).join(""), end: list.at(-1) };
}
