// Tests of how models are loaded and what they say, of contexts' options, sequences and timings, and of the log.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { promisify } from "node:util";
import { ALL_SEQUENCES, Model, buildInfo, hasFeature, setLog, version } from "./ember.mjs";
import { golden, isEmber, path, root } from "./helpers.mjs";

async function text(context, options = {}) {
  let all = "";
  for await (const event of context.generate(golden.prompt, { maxTokens: golden.max_tokens, ...options })) all += event.text;
  return all;
}

test("metadata is read key by key", async () => {
  const model = await Model.load(path);
  const { metadata, architecture } = Model.inspect(path);
  assert.deepEqual(model.metadataKeys, Object.keys(metadata));
  for (const [key, value] of Object.entries(metadata)) {
    const got = model.metadata(key);
    if (value?.type === undefined) assert.deepEqual(got, value, key);
    else assert.equal(got.length, value.length, key); // long ones have their length alone there
  }
  assert.equal(model.metadata("general.architecture"), architecture);
  const tokens = model.metadata("tokenizer.ggml.tokens");
  assert.deepEqual([tokens.length, typeof tokens[5]], [model.info.vocabularySize, "string"]);
  assert.throws(() => model.metadata("general.colour"), isEmber("NOT_FOUND", "general.colour"));
  const set = { "a.text": "Grüße", "a.yes": true, "a.whole": -7, "a.large": 2n ** 62n, "a.real": 0.5, "a.float": { float: 3 } };
  const other = await Model.load(path, { metadata: set });
  assert.deepEqual(Object.keys(set).map((key) => other.metadata(key)), ["Grüße", true, -7, 2n ** 62n, 0.5, 3]);
  await assert.rejects(Model.load(path, { metadata: { "a.b": [] } }), isEmber("INVALID_ARGUMENT", "a.b"));
  // A key that Ember reads is checked as one of the file.
  await assert.rejects(Model.load(path, { metadata: { "gpt2.block_count": 0 } }), isEmber("FORMAT", "block_count"));
});

test("how a model is loaded", async () => {
  const seen = [];
  const model = await Model.load(path, { progress: (done) => void seen.push(done), mmap: false, pack: "never", isa: "scalar", checkTensors: true });
  assert.ok(seen.length > 0 && seen.every((done, i) => done >= (seen[i - 1] ?? 0) && done <= 1), `${seen}`);
  assert.equal(model.isa, "scalar");
  assert.ok(model.memory.weights >= model.info.fileSize); // it was read
  assert.equal(await text(model.context()), golden.text);
  assert.equal((await Model.load(path, { pack: "never" })).memory.weights, 0);
  const reason = new Error("enough");
  await assert.rejects(Model.load(path, { progress: () => { throw reason; } }), reason);
  await assert.rejects(Model.load(path, { progress: () => false }), isEmber("CANCELLED", ""));
  await assert.rejects(Model.load(path, { memoryLimit: 1000, mmap: false }), isEmber("NOMEM", "1000"));
  await assert.rejects(Model.load(path, { isa: "mmx" }), isEmber("INVALID_ARGUMENT", "mmx"));
  await assert.rejects(Model.load(path, { pack: "some" }), isEmber("INVALID_ARGUMENT", "pack"));
  await assert.rejects(Model.load(path, { mmap: 1 }), isEmber("INVALID_ARGUMENT", "mmap"));
  await assert.rejects(Model.load(path, { map: true }), isEmber("INVALID_ARGUMENT", '"map"'));
  const { heads, kvHeads, headLength, layers, feedForwardLength, experts, eot } = model.info;
  const key = (name) => model.metadata(`gpt2.${name}`);
  assert.deepEqual([heads, layers, feedForwardLength], [key("attention.head_count"), key("block_count"), key("feed_forward_length")]);
  assert.deepEqual([kvHeads, headLength * heads, experts, eot === undefined || eot >= 0], [heads, model.info.embeddingLength, 0, true]);
});

test("bytes are used where they are, until nothing needs them", async () => {
  const bytes = new Uint8Array(readFileSync(path));
  let released = 0;
  const copied = await Model.load(bytes);
  const model = await Model.load(bytes, { borrow: true, released: () => released++ });
  assert.ok(copied.memory.weights - model.memory.weights >= bytes.length, JSON.stringify([copied.memory, model.memory]));
  const context = model.context({ nThreads: 1 });
  model.close();
  assert.equal(await text(context), golden.text);
  await turn();
  assert.equal(released, 0);
  context.close();
  for (let i = 0; released === 0 && i < 1000; i++) await turn();
  assert.equal(released, 1);
  await assert.rejects(Model.load(new Uint8Array(8), { borrow: true, released: () => released++ }), isEmber("FORMAT", "<buffer>"));
  await turn();
  assert.equal(released, 1);
  await assert.rejects(Model.load(path, { borrow: true }), isEmber("INVALID_ARGUMENT", "Uint8Array"));
  await assert.rejects(Model.load(bytes, { released: () => {} }), isEmber("INVALID_ARGUMENT", "borrow"));
});

test("options of contexts are in force", async () => {
  const model = await Model.load(path);
  const given = { nCtx: 96, nSeq: 2, nBatch: 32, nThreads: 2, kvType: "f32", backend: "auto", keepPrefixes: true };
  const context = model.context(given);
  const { nCtx, nSeq, nBatch, nThreads, backend, pages, freePages, pageLength } = context.info;
  assert.deepEqual({ nCtx, nSeq, nBatch, nThreads, backend }, { nCtx: 96, nSeq: 2, nBatch: 32, nThreads: 2, backend: "auto" });
  assert.deepEqual([freePages, pages * pageLength >= 96], [pages, true]);
  const ratio = context.memory.kv / model.context({ ...given, kvType: "f16" }).memory.kv;
  assert.ok(ratio > 1.9 && ratio <= 2, `${ratio}`);
  assert.equal(Model.estimateMemory(path, given).kv, context.memory.kv);
  assert.equal(await text(context), golden.text);
  assert.ok(context.info.freePages < pages);
  const scalar = model.context({ backend: "scalar", nCtx: 64, kType: "f32", vType: "f16" });
  assert.equal(scalar.info.backend, "scalar");
  const logits = await scalar.decode(model.tokenize(golden.prompt));
  const want = await model.context({ nCtx: 64 }).decode(model.tokenize(golden.prompt));
  assert.ok(logits.every((x, i) => Math.abs(x - want[i]) < 0.5) && logits.some((x, i) => x !== want[i])); // not the same arithmetic
  assert.throws(() => model.context({ kvType: "f8" }), isEmber("INVALID_ARGUMENT", "kvType must be one of f16"));
  assert.throws(() => model.context({ kvLimit: -1 }), isEmber("INVALID_ARGUMENT", "kvLimit"));
  assert.throws(() => model.context({ workerCpus: [9000] }), isEmber("INVALID_ARGUMENT", "9000"));
  assert.throws(() => model.context({ memoryLimit: 1000 }), isEmber("NOMEM", "1000"));
  assert.throws(() => model.context({ keepPrefixes: "yes" }), isEmber("INVALID_ARGUMENT", "keepPrefixes"));
  const engine = model.engine({ nParallel: 2, nCtx: 64, nThreads: 1, sharePrefixes: false });
  assert.deepEqual([engine.info.nSeq, engine.info.nCtx, engine.info.freePages], [2, 64, engine.info.pages]);
  const long = `${golden.prompt} ${"and the sea ".repeat(10)}`;
  for (const _ of [1, 2]) for await (const event of engine.submit(long, { maxTokens: 2 })) assert.ok(event);
  const { reusedTokens, cacheHitRate, prefilledTokens, promptTokens, steps, busyMs } = engine.metrics;
  assert.deepEqual([reusedTokens, cacheHitRate, prefilledTokens], [0, 0, promptTokens]);
  assert.ok(steps > 2 && busyMs > 0);
  engine.close();
});

test("tokens of sequences are kept, reused and moved", async () => {
  const model = await Model.load(path);
  const context = model.context({ nCtx: 256, nSeq: 2, nThreads: 1, keepPrefixes: true });
  const tokens = model.tokenize("The sea was calm, and the moon stood over the boat. ".repeat(6));
  await context.decode(tokens);
  assert.deepEqual(context.tokens(), tokens);
  await context.decode(tokens.slice(0, 3), { sequence: 1 });
  context.keepSequence(1);
  assert.deepEqual([context.past(0), context.past(1)], [0, 3]);
  const reused = context.reusePrefix(tokens);
  assert.ok(reused >= 32 && reused < tokens.length && context.past(0) === reused, `${reused} of ${tokens.length}`);
  assert.equal(context.reusePrefix(tokens, { most: 32 }), 32);
  await assert.rejects(context.shift(1, 2), isEmber("UNSUPPORTED", "")); // learned positions
  const rotary = (await Model.load(`${root}tests/fixtures/models/llama-tied-f32.gguf`)).context({ nThreads: 1 });
  await rotary.decode([4, 72, 41, 96, 5]);
  await rotary.shift(1, 2);
  assert.deepEqual([...rotary.tokens()], [4, 96, 5]);
  assert.throws(() => context.tokens(5), isEmber("INVALID_ARGUMENT", "5"));
  // States of all sequences at once.
  const state = context.saveState(ALL_SEQUENCES);
  const other = model.context({ nCtx: 256, nSeq: 2, nThreads: 1 });
  other.loadState(state, ALL_SEQUENCES);
  assert.deepEqual([other.tokens(0), other.tokens(1)], [context.tokens(0), context.tokens(1)]);
});

test("states go part by part, and the event loop goes on", async () => {
  const model = await Model.load(path);
  const [context, other] = [1, 2].map(() => model.context({ nCtx: 256, nThreads: 1 }));
  await context.decode(model.tokenize("The sea was calm, and the moon stood over the boat. ".repeat(6)));
  const parts = [];
  await context.writeState((part) => parts.push(part));
  const whole = Buffer.concat(parts);
  assert.deepEqual(whole, Buffer.from(context.saveState()));
  let at = 0;
  await other.readState((n) => whole.subarray(at, (at += Math.min(n, 1000))));
  assert.deepEqual(other.tokens(), context.tokens());
  assert.ok(at >= whole.length);
  const reason = new Error("full");
  await assert.rejects(context.writeState(() => { throw reason; }), reason);
  await assert.rejects(other.readState(() => "x"), isEmber("INVALID_ARGUMENT", "Uint8Array"));
  await assert.rejects(other.readState(() => new Uint8Array(0)), isEmber("FORMAT", ""));
  assert.deepEqual(other.tokens(), context.tokens()); // as it was
  const writing = context.writeState(() => {});
  await assert.rejects(context.writeState(() => {}), isEmber("BUSY", ""));
  await writing;
});

test("timings count what was run", async () => {
  const model = await Model.load(path);
  const context = model.context({ nThreads: 1 });
  const prompt = model.tokenize(golden.prompt);
  await text(context, { maxTokens: 5, ignoreEog: true });
  const { prefillTokens, decodeTokens, embedTokens, prefillMs, decodeMs, loadMs, replayTokens, replayMs } = context.timings;
  assert.deepEqual([prefillTokens, decodeTokens, embedTokens, replayTokens, replayMs], [prompt.length, 5, 0, 0, 0]);
  assert.ok(prefillMs > 0 && decodeMs > 0 && loadMs > 0);
  context.resetTimings();
  assert.deepEqual(context.timings, { ...context.timings, prefillTokens: 0, prefillMs: 0, decodeTokens: 0, decodeMs: 0, loadMs });
  await context.embed([golden.prompt]);
  assert.equal(context.timings.embedTokens, prompt.length);
});

test("vectors and scores of tokens", async () => {
  const model = await Model.load(path);
  const context = model.context({ nThreads: 1, nSeq: 2 });
  const texts = ["The sea", "Once upon a time"];
  const tokens = texts.map((one) => model.tokenize(one));
  assert.deepEqual(await context.embedTokens(tokens), await context.embed(texts));
  await assert.rejects(context.embedTokens([[1 << 30]]), isEmber("INVALID_ARGUMENT", String(1 << 30)));
  const [before, after] = [model.tokenize("The wolf"), model.tokenize(" said", { addSpecial: false })];
  const asText = await context.score("The wolf", " said", { sequence: 1 });
  assert.equal(context.past(0), 0);
  const asTokens = await context.score(before, after);
  assert.deepEqual(asTokens.tokens, asText.tokens);
  assert.deepEqual(asTokens.tokens.map((one) => one.token), [...after]);
  await assert.rejects(context.score("The wolf", after), isEmber("INVALID_ARGUMENT", "both"));
  const aborted = AbortSignal.abort(new Error("enough"));
  await assert.rejects(context.score("The wolf", " said", { signal: aborted }), aborted.reason);
});

test("gaps are filled in a repository, and bytes are tokenized", async () => {
  const marks = Object.fromEntries(["pre", "suf", "mid", "rep", "sep"].map((name, i) => [`tokenizer.ggml.fim_${name}_token_id`, 300 + i]));
  const tokenizer = (await Model.load(path, { metadata: marks })).tokenizer;
  const plain = (one) => [...tokenizer.tokenize(one, { addSpecial: false })];
  const { fimPrefix, fimSuffix, fimMiddle, fimRepository, fimFile } = tokenizer.info;
  assert.deepEqual([fimPrefix, fimSuffix, fimMiddle, fimRepository, fimFile], [300, 301, 302, 303, 304]);
  assert.deepEqual([...tokenizer.fimPrompt("a", "b")], [300, ...plain("a"), 301, ...plain("b"), 302]);
  assert.deepEqual([...tokenizer.fimPrompt("a", "b", { order: "spm" })], [301, ...plain("b"), 300, ...plain("a"), 302]);
  const whole = [...tokenizer.fimPrompt("a", "b", { repository: "tales", file: "a.txt", files: [{ name: "b.txt", text: "The sea" }] })];
  assert.deepEqual(whole.slice(0, 1 + plain("tales").length), [303, ...plain("tales")]);
  assert.equal(whole.filter((token) => token === 304).length, 2);
  assert.throws(() => tokenizer.fimPrompt("a", "b", { order: "msp" }), isEmber("INVALID_ARGUMENT", "order"));
  assert.throws(() => tokenizer.fimPrompt("a", "b", { path: "x" }), isEmber("INVALID_ARGUMENT", '"path"'));
  const bytes = Uint8Array.from([...Buffer.from("sea "), 0xff, 0xfe]);
  const tokens = tokenizer.tokenize(bytes, { addSpecial: false });
  assert.deepEqual(Buffer.concat(Array.from(tokens, (token) => Buffer.from(tokenizer.bytes(token)))), Buffer.from(bytes));
});

test("the library says what it is", () => {
  assert.match(version(), /^\d+\.\d+\.\d+/);
  assert.ok(buildInfo().includes(version()) && buildInfo().includes("llama"));
  assert.deepEqual([hasFeature("chat"), hasFeature("telepathy")], [true, false]);
});

test("the log goes where it is wanted", async () => {
  const lines = [];
  setLog("debug", (level, line) => lines.push(`${level} ${line}`));
  (await Model.load(path)).close();
  const said = lines.length;
  assert.ok(lines.some((line) => /^(info|debug) .*ember-tales/.test(line)), `${lines}`);
  setLog("error", (level, line) => lines.push(`${level} ${line}`));
  (await Model.load(path)).close();
  setLog();
  (await Model.load(path)).close();
  assert.equal(lines.length, said);
  assert.throws(() => setLog("loud", () => {}), isEmber("INVALID_ARGUMENT", "loud"));
  assert.throws(() => setLog("info", 5), isEmber("INVALID_ARGUMENT", "function"));
  // What it throws is nobody's but the process's; a process may end while lines come.
  const program = `
    import { Model, setLog } from ${JSON.stringify(new URL("ember.mjs", import.meta.url))};
    process.on("uncaughtException", (error) => console.log("caught", error.message));
    setLog("debug", () => { throw new Error("in the log"); });
    globalThis.context = (await Model.load(${JSON.stringify(path)})).context();
    setLog("debug", () => {});
    Model.load(${JSON.stringify(path)});
    setTimeout(() => process.exit(), 1);`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  assert.match(stdout, /^caught in the log/);
});
