// Tests of vectors and scores, against what sentence-transformers and transformers gave.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Model } from "./ember.mjs";
import { isEmber } from "./helpers.mjs";

const fixtures = fileURLToPath(new URL("../../tests/fixtures/", import.meta.url));
const read = (name) => JSON.parse(readFileSync(fixtures + name));

function near(got, want) {
  assert.equal(got.length, want.length);
  for (const [i, x] of want.entries()) assert.ok(Math.abs(got[i] - x) < 2e-3, `${got} instead of ${want}`);
}

test("the vectors of a folder with a Dense module are narrower than the model's layers", async () => {
  const { texts, cases } = read("dense.json");
  const model = await Model.load(`${fixtures}dense-folder`);
  const { embeddingLength, vectorLength, prompts } = model.info;
  assert.deepEqual([embeddingLength, vectorLength, prompts], [36, 7, 3]);
  const context = model.context();
  const dense = cases.filter((one) => one.base === "bert" && one.dense.length > 0);
  assert.equal(dense.length, 2);
  for (const { normalize, dimensions, rows } of dense) {
    const got = await context.embed(texts, { normalize, dimensions });
    assert.equal(got.length, texts.length);
    for (const [i, row] of rows.entries()) near(got[i], row);
  }
  const prompted = await context.embed(texts.map((text) => `w5 w6 ${text}`));
  assert.deepEqual(await context.embed(texts, { prompt: "query" }), prompted);
  const rows = await context.embed(["w7 w8"], { pooling: "none" });
  assert.deepEqual([rows.length, rows[0].length], [model.tokenize("w7 w8").length, 36]);
  const cut = await context.embed(["w7 w8"], { pooling: "none", dimensions: 5 });
  assert.deepEqual(cut, rows.map((row) => row.subarray(0, 5)));
  assert.deepEqual(await context.embed([]), []);
  await assert.rejects(context.embed(texts, { dimensions: 8 }), isEmber("INVALID_ARGUMENT", "1 to 7"));
  await assert.rejects(context.embed(texts, { dimensions: -1 }), isEmber("INVALID_ARGUMENT", "-1"));
  await assert.rejects(context.embed(texts, { prompt: "passage" }), isEmber("INVALID_ARGUMENT", '"passage"'));
  await assert.rejects(context.embed(texts, { pooling: "most" }), isEmber("INVALID_ARGUMENT", "most"));
  const reason = new Error("enough");
  const abort = new AbortController();
  const long = context.embed(Array.from({ length: 2000 }, () => texts[2]), { signal: abort.signal });
  await assert.rejects(context.embed(texts), isEmber("BUSY", ""));
  abort.abort(reason);
  await assert.rejects(long, reason);
  assert.deepEqual(await context.embed(texts, { prompt: "query" }), prompted); // the signal is forgotten
  context.close();
  await assert.rejects(context.embed(texts), isEmber("CLOSED", "context"));
});

test("scores of texts", async () => {
  const { query, texts, scores } = read("rank/scores.json");
  for (const name of ["bert-rerank", "bert-labels"]) {
    const want = scores[name];
    const model = await Model.load(`${fixtures}rank/${name}.gguf`);
    assert.deepEqual(model.labels, want.labels);
    const context = model.context();
    for (const [i, got] of (await context.classify(texts)).entries()) near(got, want.texts[i]);
    assert.deepEqual(await context.classify([]), []);
    for (const [i, got] of (await context.classify(texts, { activation: "none" })).entries()) near(got, want.logits[i]);
    if (name === "bert-rerank") near(await context.rerank(query, texts), want.pairs);
    else await assert.rejects(context.rerank("a", ["b"]), isEmber("UNSUPPORTED", ""));
    await assert.rejects(context.rerank("who", ["a"], { top: 3 }), isEmber("INVALID_ARGUMENT", "top"));
  }
  const chat = await Model.load(fileURLToPath(new URL("../../examples/models/ember-tales.gguf", import.meta.url)));
  await assert.rejects(chat.context().classify(["a"]), isEmber("UNSUPPORTED", ""));
});
