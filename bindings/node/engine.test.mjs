// Tests of engines, scores of continuations and states in files, on the bundled model.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Model } from "./ember.mjs";
import { all, golden, isEmber, path } from "./helpers.mjs";

test("requests run together, each as alone, and the event loop goes on", async () => {
  const model = await Model.load(path);
  const engine = model.engine({ nParallel: 8, nCtx: 128, nThreads: 1 });
  const maxTokens = golden.max_tokens;
  let turns = 0;
  let running = true;
  const turn = () => (turns++, running && setImmediate(turn));
  setImmediate(turn);
  // More than there are threads to wait on.
  const prompts = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? golden.prompt : "The wolf said"));
  const texts = (await Promise.all(prompts.map((prompt) => all(engine.submit(prompt, { maxTokens }))))).map((one) => one.text);
  running = false;
  const alone = (await all(model.context({ nCtx: 128, nThreads: 1 }).generate("The wolf said", { maxTokens }))).text;
  texts.forEach((text, i) => assert.equal(text, i % 2 === 0 ? golden.text : alone));
  assert.ok(turns > 20, `${turns} turns`);
  const [likely] = (await all(engine.submit(golden.prompt, { maxTokens: 1, topLogprobs: 3, logprobs: true }))).list;
  assert.deepEqual([likely.top.length, likely.top[0]], [3, { token: likely.token, logprob: likely.logprob }]);
  assert.ok(likely.top[0].logprob >= likely.top[1].logprob);
  const drawn = { maxTokens: 6, temperature: 1.1, seed: 4, priority: 1 };
  const first = await all(engine.submit(model.tokenize(golden.prompt), drawn));
  assert.equal(first.text, (await all(engine.submit(golden.prompt, drawn))).text);
  assert.deepEqual([first.end.usage.generatedTokens, first.end.finishReason], [6, "max_tokens"]);
  const { submitted, generatedTokens, failed } = engine.metrics;
  assert.deepEqual([submitted, failed, generatedTokens >= 20 * maxTokens], [23, 0, true]);
  engine.close();
  assert.throws(() => engine.metrics, isEmber("CLOSED", "engine"));
});

test("requests end early", async () => {
  const model = await Model.load(path);
  const engine = model.engine({ nParallel: 2, maxQueue: 1, nThreads: 1, nCtx: 512 });
  const endless = { maxTokens: 400, ignoreEog: true };
  for await (const _ of engine.submit("The sea", endless)) break;
  const abort = new AbortController();
  const reason = new Error("enough");
  let seen = 0;
  await assert.rejects(async () => {
    for await (const _ of engine.submit("The sea", { ...endless, signal: abort.signal })) if (++seen === 3) abort.abort(reason);
  }, reason);
  assert.throws(() => engine.submit("x", { signal: abort.signal }), reason);
  assert.throws(() => engine.submit(""), isEmber("INVALID_ARGUMENT", "empty"));
  assert.throws(() => engine.submit("The sea. ".repeat(400)), isEmber("CONTEXT_FULL", "512"));
  assert.throws(() => engine.submit("a", { top: 5 }), isEmber("INVALID_ARGUMENT", '"top"'));
  assert.throws(() => model.engine({ parallel: 2 }), isEmber("INVALID_ARGUMENT", '"parallel"'));
  assert.throws(() => model.engine({ nParallel: 0 }), isEmber("INVALID_ARGUMENT", "0"));
  const many = [];
  assert.throws(() => {
    for (let i = 0; i < 9; i++) many.push(engine.submit("The sea", endless));
  }, isEmber("QUEUE_FULL", ""));
  const rest = many.map((one) => all(one));
  engine.close();
  for (const { end } of await Promise.all(rest)) assert.equal(end.finishReason, "cancelled");
});

test("continuations are scored, and files keep states", async () => {
  const model = await Model.load(path);
  const context = model.context({ nCtx: 128, nThreads: 1 });
  const prompt = `${golden.prompt} there was a`;
  const king = await context.score(prompt, " king.");
  const odd = await context.score(prompt, " xylophone.");
  assert.ok(king.logprob > odd.logprob && odd.reusedTokens > 0 && !odd.greedy);
  const sum = king.tokens.reduce((total, one) => total + one.logprob, 0);
  assert.ok(Math.abs(sum - king.logprob) < 1e-3 && king.tokens.every((one) => one.rank >= 0 && one.token < model.info.vocabularySize));
  await assert.rejects(context.score(prompt, ""), isEmber("INVALID_ARGUMENT", ""));
  context.rewind();
  const folder = mkdtempSync(join(tmpdir(), "ember-"));
  await all(context.generate(golden.prompt, { maxTokens: 4 }));
  context.saveStateFile(join(folder, "a.state"));
  const other = model.context({ nCtx: 128, nThreads: 1 });
  other.loadStateFile(join(folder, "a.state"));
  assert.equal((await all(other.generate("", { maxTokens: 4 }))).text, (await all(context.generate("", { maxTokens: 4 }))).text);
  assert.throws(() => other.loadStateFile(join(folder, "none.state")), isEmber("IO", "none.state"));
  rmSync(folder, { recursive: true });
});

test("a file is looked into", () => {
  const { supported, metadata, architecture } = Model.inspect(path);
  assert.deepEqual([supported, architecture, metadata["general.architecture"] !== undefined], [true, "gpt2", true]);
  assert.throws(() => Model.inspect("no.gguf"), isEmber("IO", "no.gguf"));
});
