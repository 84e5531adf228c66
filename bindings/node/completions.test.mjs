// Tests of several completions of one prompt.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Model } from "./ember.mjs";
import { isEmber, path } from "./helpers.mjs";

const prompt = "Once upon a time";

async function all(events, n) {
  const texts = Array(n).fill("");
  const sums = Array(n).fill(0);
  const ends = [];
  for (;;) {
    const { done, value } = await events.next();
    if (done) return { texts, sums, ends: ends.sort(), result: value };
    texts[value.index ?? 0] += value.text;
    if (value.kind === "token") sums[value.index ?? 0] += value.logprob;
    if (value.kind === "end") ends.push(value.index);
  }
}

test("each completion is as alone", async () => {
  const model = await Model.load(path);
  const options = { maxTokens: 12, temperature: 1.1, logprobs: true };
  const context = model.context({ nCtx: 128, nSeq: 3 });
  const { texts, sums, ends, result } = await all(context.completions(prompt, 3, { seed: 21, ...options }), 3);
  assert.deepEqual(ends, [0, 1, 2]);
  assert.deepEqual(result.texts, texts);
  assert.deepEqual(result.usages.map((usage) => [usage.generatedTokens, usage.finishReason]), Array(3).fill([12, "max_tokens"]));
  assert.ok(new Set(texts).size > 1);
  for (const [i, text] of texts.entries()) {
    const own = model.context({ nCtx: 128 });
    const alone = await all(own.generate(prompt, { seed: 21 + i, ...options }), 1);
    assert.equal(text, alone.texts[0]);
    assert.equal(sums[i], alone.sums[0]);
    own.close();
  }
  assert.deepEqual(result.best, [0, 1, 2].sort((a, b) => sums[b] - sums[a])); // all have 12 tokens
  const greedy = await all(context.completions(model.tokenize(prompt), 2, { maxTokens: 6 }), 2);
  assert.equal(greedy.texts[0], greedy.texts[1]);
  assert.equal(greedy.result.best, undefined);
  for (const i of [0, 1, 2]) context.rewind(0, i);
  const after = await all(context.completions(prompt, 2, { maxTokens: 6, sequence: 1 }), 2);
  assert.deepEqual(after.texts, greedy.texts);
  assert.deepEqual([context.past(0) === 0, context.past(2) > 6], [true, true]);
  await assert.rejects(all(context.completions(prompt, 4), 4), isEmber("INVALID_ARGUMENT", "4 completions"));
  await assert.rejects(all(context.completions(prompt, -1), 4), isEmber("INVALID_ARGUMENT", "-1"));
  const abort = new AbortController();
  const reason = new Error("enough");
  await assert.rejects(async () => {
    for await (const _ of context.completions(prompt, 2, { maxTokens: 100, ignoreEog: true, signal: abort.signal })) abort.abort(reason);
  }, reason);
});
