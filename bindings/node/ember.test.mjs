// Tests of the package, on the bundled model and, for chat, on EMBER_CHAT_MODEL.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { Model } from "./ember.mjs";
import { all, golden, isEmber, path } from "./helpers.mjs";

test("text is the golden one", async () => {
  const model = await Model.load(path);
  const context = model.context();
  model.close(); // the context keeps it
  const { text, end } = await all(context.generate(golden.prompt, { maxTokens: golden.max_tokens }));
  assert.deepEqual([text, end.finishReason], [golden.text, golden.finish_reason ?? "max_tokens"]);
  context.close();
  assert.throws(() => context.rewind(), isEmber("CLOSED", "closed"));
});

test("the event loop goes on", async () => {
  const model = await Model.load(path);
  const context = model.context();
  let turns = 0;
  let running = true;
  const turn = () => {
    turns++;
    if (running) setImmediate(turn);
  };
  setImmediate(turn);
  const perEvent = [];
  for await (const _ of context.generate("The sea was calm. ".repeat(60), { maxTokens: 4, ignoreEog: true })) {
    perEvent.push(turns);
    turns = 0;
  }
  running = false;
  assert.equal(perEvent.length, 5);
  // While the prompt was run, which takes many milliseconds, the loop turned many times.
  assert.ok(perEvent[0] > 5, `turns for each event: ${perEvent}`);
  context.close();
  model.close();
});

test("seeds, stop texts, tokens", async () => {
  const model = await Model.load(path);
  const context = model.context();
  const draw = async (seed) => {
    context.rewind();
    return (await all(context.generate("The wolf said", { maxTokens: 20, temperature: 0.9, topK: 40, topP: 0.95, seed }))).text;
  };
  assert.equal(await draw(3), await draw(3));
  assert.notEqual(await draw(3), await draw(4));
  assert.equal(await draw(2n ** 64n - 2n), await draw(2n ** 64n - 2n));
  await assert.rejects(draw(-1), isEmber("INVALID_ARGUMENT", "-1"));
  context.rewind();
  const stop = golden.text.trim().split(" ")[1];
  const { text, end } = await all(context.generate(model.tokenize(golden.prompt), { stop, maxTokens: golden.max_tokens }));
  assert.equal(text, golden.text.slice(0, golden.text.indexOf(stop)));
  assert.equal(end.finishReason, "stop_string");
  context.rewind();
  for await (const event of context.generate("The sea", { maxTokens: 1, logprobs: true })) if (event.kind === "token") assert.ok(event.logprob < 0);
});

test("a signal ends a generation, and leaving the loop does", async () => {
  const model = await Model.load(path);
  const context = model.context();
  const abort = new AbortController();
  const reason = new Error("enough");
  let seen = 0;
  await assert.rejects(async () => {
    for await (const _ of context.generate("The sea", { maxTokens: 400, ignoreEog: true, signal: abort.signal })) {
      if (++seen === 3) abort.abort(reason);
    }
  }, reason);
  assert.equal(seen, 3);
  await assert.rejects(all(context.generate("x", { signal: abort.signal })), reason);
  await assert.rejects(Model.load(path, { signal: abort.signal }), reason);
  const loading = new AbortController();
  const load = Model.load(path, { signal: loading.signal });
  loading.abort(reason);
  await load.then((other) => other.close(), (error) => assert.equal(error, reason)); // it may have been faster
  context.rewind();
  for await (const _ of context.generate("The sea", { maxTokens: 400 })) break;
  context.rewind();
  assert.equal((await all(context.generate(golden.prompt, { maxTokens: golden.max_tokens }))).text, golden.text);
  // Closed while it runs: the loop ends with a sentence, and nothing is freed under the call.
  context.rewind();
  await assert.rejects(async () => {
    for await (const _ of context.generate("The sea", { maxTokens: 400, ignoreEog: true })) context.close();
  }, isEmber("CLOSED", "context"));
});

test("two generations at once", async () => {
  const model = await Model.load(path);
  const context = model.context();
  const first = context.generate("The sea", { maxTokens: 50 })[Symbol.asyncIterator]();
  const running = first.next();
  await assert.rejects(all(context.generate("The wolf", { maxTokens: 50 })), isEmber("BUSY", ""));
  await running;
  await first.return();
  const contexts = [1, 2, 3].map(() => model.context({ nThreads: 1, nCtx: 128 }));
  const texts = await Promise.all(contexts.map((c) => all(c.generate(golden.prompt, { maxTokens: golden.max_tokens }))));
  assert.deepEqual(texts.map((t) => t.text), [golden.text, golden.text, golden.text]);
});

test("a process may end with contexts open", async () => {
  const program = `
    import { Model } from ${JSON.stringify(new URL("ember.mjs", import.meta.url))};
    globalThis.context = (await Model.load(${JSON.stringify(path)})).context();`;
  for (let i = 0; i < 10; i++) await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
});

test("refusals are sentences", async () => {
  await assert.rejects(Model.load("no.gguf"), isEmber("IO", "no.gguf"));
  const model = await Model.load(path);
  assert.throws(() => model.context({ n_ctx: 5 }), isEmber("INVALID_ARGUMENT", "n_ctx"));
  const context = model.context({ nCtx: 64 });
  await assert.rejects(all(context.generate("a", { maxtokens: 5 })), isEmber("INVALID_ARGUMENT", "maxtokens"));
  await assert.rejects(all(context.generate("The sea. ".repeat(200))), isEmber("CONTEXT_FULL", "64"));
  await assert.rejects(all(context.generate("a", { topP: 5 })), isEmber("INVALID_ARGUMENT", "5"));
  await assert.rejects(all(context.generate("a", { topP: "most" })), isEmber("INVALID_ARGUMENT", "topP must be a number, not most"));
  await assert.rejects(all(context.generate("a", { stop: 5 })), isEmber("INVALID_ARGUMENT", "5"));
  await assert.rejects(all(context.generate(null)), isEmber("INVALID_ARGUMENT", "null"));
  await assert.rejects(context.embed("a"), isEmber("INVALID_ARGUMENT", "array"));
  await assert.rejects(context.embed([5]), isEmber("INVALID_ARGUMENT", "5"));
  await assert.rejects(all(context.chat([{ role: "user", content: "Hi" }])), isEmber("UNSUPPORTED", "template"));
});

test("chat templates", async () => {
  const model = await Model.load(path);
  const template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% for t in tools %}{{ t.function.name }}{% endfor %}{{ mood }}";
  const tools = [{ type: "function", function: { name: "sum" } }];
  const messages = [{ role: "user", content: "Grüße 🌙 <&>".repeat(50) }];
  const text = model.applyChatTemplate(messages, { template, tools, variables: { mood: "merry" } });
  assert.equal(text, `[user] ${messages[0].content}\nsummerry`);
});

test("templates have the time, and an answer's beginning or not", async () => {
  const model = await Model.load(path);
  const template = "{{ strftime_now('%Y-%m-%d %H:%M') }}{% if add_generation_prompt %}>{% endif %}";
  const now = new Date(2024, 1, 29, 13, 5);
  const messages = [{ role: "user", content: "x" }];
  assert.equal(model.applyChatTemplate(messages, { template, now }), "2024-02-29 13:05>");
  assert.equal(model.applyChatTemplate(messages, { template, now, addGenerationPrompt: false }), "2024-02-29 13:05");
  assert.throws(() => model.applyChatTemplate(messages, { template, now: 5 }), isEmber("INVALID_ARGUMENT", "now"));
  assert.throws(() => model.chatTemplate(), isEmber("UNSUPPORTED", "template"));
  const with_ = await Model.load(path, { metadata: { "tokenizer.chat_template": template } });
  assert.equal(with_.chatTemplate(), template);
});

test("a prompt is echoed, and goes on where a text stands", async () => {
  const model = await Model.load(path);
  const context = model.context({ nThreads: 1 });
  const { list: events } = await all(context.generate("The sea", { maxTokens: 2, echo: true, logprobs: true }));
  assert.deepEqual([events[0].kind, events[0].text, events.length], ["echo", "The sea", 4]);
  const { usage } = events.at(-1);
  const sum = events.filter((event) => event.kind === "token").reduce((total, event) => total + event.logprob, 0);
  assert.ok(Math.abs(usage.sumLogprob - sum) < 1e-4 && Math.abs(usage.meanLogprob - sum / 2) < 1e-4);
  // Control tokens of a prompt are text unless that is asked for.
  const length = async (parseSpecial) => {
    context.rewind();
    await all(context.generate("<|endoftext|>", { maxTokens: 1, parseSpecial }));
    return context.tokens();
  };
  const [eos] = [model.info.eos];
  assert.ok(!(await length(false)).includes(eos));
  assert.ok((await length(true)).includes(eos));
  // After a text there is no second BOS, as there would be if each prompt were a text of its own.
  const bos = await Model.load(path, { metadata: { "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.bos_token_id": eos } });
  const ofBos = bos.context({ nThreads: 1 });
  for (const prompt of ["The sea", " was calm"]) await all(ofBos.generate(prompt, { maxTokens: 1, ignoreEog: true, deny: [eos] }));
  assert.deepEqual([ofBos.tokens()[0], ofBos.tokens().lastIndexOf(eos)], [eos, 0]);
  await assert.rejects(all(context.generate("a", { echo: 1 })), isEmber("INVALID_ARGUMENT", "echo"));
});

test("a streamed chat, as in the README", async (t) => {
  const chatModel = process.env.EMBER_CHAT_MODEL ?? "";
  if (!existsSync(chatModel)) return t.skip("EMBER_CHAT_MODEL names no model");
  const readme = readFileSync(new URL("README.md", import.meta.url), "utf8");
  const [, program] = readme.match(/```js\n([^]*?)```/);
  assert.ok(program.split("\n").length < 20);
  const here = program.replace('"./ember.mjs"', JSON.stringify(new URL("ember.mjs", import.meta.url)));
  const arguments_ = ["--input-type=module", "-e", here.replace('"model.gguf"', JSON.stringify(chatModel))];
  const { stdout } = await promisify(execFile)(process.execPath, arguments_);
  assert.match(stdout, /^L'Étoile,/); // llama.cpp begins this answer in the same way
});
