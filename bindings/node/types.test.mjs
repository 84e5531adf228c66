// Whether ember.d.ts names all that the package has; that the types are right is for types.check.ts to show.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as ember from "./ember.mjs";
import { APPLY, CLASSIFY, CONTEXT, EMBED, MODEL, REPLY } from "./options.mjs";
import { GENERATE } from "./sampler.mjs";

const types = readFileSync(new URL("ember.d.ts", import.meta.url), "utf8");
// What the package's own files call.
const INTERNAL = ["constructor", "of", "make", "use", "lease", "proposedBy"];

function block(kind, name) {
  const [, body] = types.match(new RegExp(`^export ${kind} ${name}\\b[^{]*\\{\\n([^]*?)^\\}`, "m")) ?? [];
  assert.ok(body, `ember.d.ts has no ${kind} ${name}`);
  return body;
}

const names = (body) => new Set([...body.matchAll(/^ {2}(?:static |readonly )*(\w+)\??[(:]/gm)].map(([, name]) => name));

test("all that is exported has a type, and nothing else", () => {
  const typed = [...types.matchAll(/^export (?:class|function|const) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(typed.sort(), Object.keys(ember).sort());
  for (const [name, Class] of Object.entries(ember)) {
    if (typeof Class !== "function" || !/^class/.test(Class.toString()) || name === "EmberError") continue;
    const own = [Class.prototype, Class].flatMap(Object.getOwnPropertyNames);
    const has = own.filter((one) => !INTERNAL.includes(one) && !["length", "name", "prototype"].includes(one));
    const has_ = new Set([...has, "close"]);
    const typedOnes = names(block("class", name));
    typedOnes.delete("constructor");
    assert.deepEqual([...typedOnes].sort(), [...has_].sort(), name);
  }
});

test("all options have types", () => {
  const of = (...interfaces) => new Set(interfaces.flatMap((name) => [...names(block("interface", name))]));
  const all = {
    context: [CONTEXT, of("ContextOptions")],
    model: [MODEL, of("ModelOptions")],
    generate: [GENERATE, of("GenerateOptions", "SamplerOptions", "Stages")],
    template: [APPLY, of("ChatOptions", "TemplateOptions")],
    reply: [REPLY, of("ChatOptions", "ReplyOptions")],
    embed: [EMBED, of("EmbedOptions")],
    classify: [CLASSIFY, of("ClassifyOptions")],
  };
  for (const [what, [has, typed]] of Object.entries(all)) assert.deepEqual([...typed].sort(), [...has].sort(), what);
});
