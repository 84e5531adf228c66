// Tests of samplers: their stages, logits that are sampled by hand, and callbacks, on the bundled model.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Constraint, Model, Sampler } from "./ember.mjs";
import { isEmber, path } from "./helpers.mjs";

const prompt = "The wolf said";

const model = await Model.load(path);
const context = model.context({ nThreads: 1, nCtx: 256 });

async function draw(options, from = prompt) {
  context.rewind();
  const tokens = [];
  for await (const event of context.generate(from, { maxTokens: 12, seed: 5, ...options })) if (event.kind === "token") tokens.push(event.token);
  return tokens;
}

test("biases, and tokens that are allowed and denied", async () => {
  const greedy = await draw({ greedy: true });
  const [first] = greedy;
  assert.deepEqual(greedy, await draw({ seed: undefined }));
  for (const options of [{ deny: [first] }, { logitBias: { [first]: -Infinity } }, { logitBias: new Map([[first, -Infinity]]) }]) {
    const without = await draw({ ...options, greedy: true });
    assert.ok(!without.includes(first), `${without} has ${first}`);
  }
  const [wanted] = model.tokenize(" sea", { addSpecial: false });
  assert.notEqual(first, wanted);
  assert.deepEqual(await draw({ logitBias: { [wanted]: 100 }, greedy: true, maxTokens: 3 }), [wanted, wanted, wanted]);
  const allowed = model.tokenize(" the wolf", { addSpecial: false });
  assert.ok((await draw({ allow: allowed, temperature: 1 })).every((token) => allowed.includes(token)));
  await assert.rejects(draw({ allow: [] }), isEmber("INVALID_ARGUMENT", ""));
  await assert.rejects(draw({ allow: 7 }), isEmber("INVALID_ARGUMENT", "allow"));
  await assert.rejects(draw({ deny: [-1] }), isEmber("INVALID_ARGUMENT", "deny"));
  await assert.rejects(draw({ logitBias: { [first]: "x" } }), isEmber("INVALID_ARGUMENT", `logitBias of token ${first}`));
  await assert.rejects(draw({ logitBias: { a: 1 } }), isEmber("INVALID_ARGUMENT", "logitBias"));
});

test("DRY keeps a passage from being carried on", async () => {
  const passage = " one two three four five";
  const repeated = `Count:${passage}.${passage}.${" one two three"}`;
  const [four] = model.tokenize(" four", { addSpecial: false });
  // Without it, biased towards the passage's next token, that one comes.
  const towards = { logitBias: { [four]: 20 }, greedy: true, maxTokens: 1 };
  assert.deepEqual(await draw(towards, repeated), [four]);
  const dry = { multiplier: 50, base: 2, allowedLength: 1 };
  assert.notDeepEqual(await draw({ ...towards, dry }, repeated), [four]);
  // A breaker between ends the passage; with none the default ones are gone.
  assert.deepEqual(await draw({ ...towards, dry: { ...dry, breakers: [" three"] } }, repeated), [four]);
  const lines = repeated.replace(" three four five.", "\n four five.").replace(/ three$/, "\n");
  assert.deepEqual(await draw({ ...towards, dry }, lines), [four]);
  assert.notDeepEqual(await draw({ ...towards, dry: { ...dry, breakers: [] } }, lines), [four]);
  await assert.rejects(draw({ dry: { length: 1 } }), isEmber("INVALID_ARGUMENT", '"length"'));
  await assert.rejects(draw({ dry: { base: "a" } }), isEmber("INVALID_ARGUMENT", "dry.base"));
  assert.throws(() => new Sampler({ dry }), isEmber("INVALID_ARGUMENT", "dry needs a model"));
});

test("infill, Mirostat's first version and penalties of what was generated", async () => {
  assert.throws(() => new Sampler({ infill: true }), isEmber("INVALID_ARGUMENT", "infill needs a model"));
  const logits = new Float32Array(model.info.vocabularySize).fill(-20);
  const { eos } = model.info;
  const [sea, seal] = [" sea", " the"].map((text) => model.tokenize(text, { addSpecial: false })[0]);
  // An end that is as likely as all else together is taken, however likely another token is.
  logits[sea] = 1;
  logits[seal] = 0.5;
  logits[eos] = 0.9;
  const infill = model.sampler({ infill: true, greedy: true, seed: 1 });
  assert.equal(model.sampler({ greedy: true }).sample(logits), sea);
  assert.equal(infill.sample(logits), eos);
  assert.equal(model.sampler({ infill: false, greedy: true }).sample(logits), sea);

  const few = await draw({ mirostat1: { tau: 0.01, eta: 1, m: 50 }, maxTokens: 30 });
  const many = await draw({ mirostat1: { tau: 9 }, maxTokens: 30 });
  assert.notDeepEqual(few, many);
  await assert.rejects(draw({ mirostat1: { m: 1 } }), isEmber("INVALID_ARGUMENT", "1"));

  // The prompt's tokens count, unless only those that were generated do.
  const [wanted] = model.tokenize(" wolf", { addSpecial: false });
  const towards = (generatedOnly) => draw({ logitBias: { [wanted]: 50 }, penalties: { presence: 100, generatedOnly }, greedy: true, maxTokens: 2 });
  assert.ok(!(await towards(false)).includes(wanted));
  const [once, then] = await towards(true);
  assert.deepEqual([once, then === wanted], [wanted, false]);
  await assert.rejects(draw({ penalties: { generatedOnly: 1 } }), isEmber("INVALID_ARGUMENT", "penalties.generatedOnly"));
});

test("stages come in an order of one's own", async () => {
  // Top-k of a temperature that makes all alike keeps one token; after a draw of the likeliest it changes nothing.
  const logits = Float32Array.from([1, 2, 3]);
  const ofOrder = (stages) => new Sampler({ stages, seed: 3 });
  assert.equal(ofOrder([{ topK: 1 }, { logitBias: { 0: 10 } }]).sample(logits), 2);
  assert.equal(ofOrder([{ logitBias: { 0: 10 } }, { topK: 1 }]).sample(logits), 0);
  await assert.rejects(draw({ stages: [{ topK: 1 }], temperature: 1 }), isEmber("INVALID_ARGUMENT", "temperature"));
  await assert.rejects(draw({ stages: [{ topK: 1, topP: 1 }] }), isEmber("INVALID_ARGUMENT", "stages[0]"));
  await assert.rejects(draw({ stages: [{ heat: 1 }] }), isEmber("INVALID_ARGUMENT", '"heat"'));
});

test("logits are sampled by hand", async () => {
  const greedy = await draw({ seed: undefined, maxTokens: 6 });
  context.rewind();
  const sampler = new Sampler({ greedy: true });
  let logits = await context.decode(model.tokenize(prompt));
  const tokens = [];
  while (tokens.length < 6) {
    const token = sampler.sample(logits);
    sampler.accept(token);
    tokens.push(token);
    logits = await context.decode([token]);
  }
  assert.deepEqual(tokens, greedy);
  assert.deepEqual(context.logits(0), logits);
  assert.throws(() => context.logits(1), isEmber("NOT_FOUND", ""));
  const all = await model.context({ nThreads: 1, nSeq: 2 }).decode([...model.tokenize(prompt), tokens[0]], { all: true });
  const top = (one) => one.indexOf(Math.max(...one));
  assert.deepEqual([all.length, ...all.slice(-2).map(top)], [model.tokenize(prompt).length + 1, greedy[0], greedy[1]]);
  await assert.rejects(context.decode([]), isEmber("INVALID_ARGUMENT", ""));
  await assert.rejects(context.decode([1, 2], { sequence: [0] }), isEmber("INVALID_ARGUMENT", "sequence has 1 numbers for 2 tokens"));
  await assert.rejects(context.decode([1], { positions: [0] }), isEmber("INVALID_ARGUMENT", "position"));
  await assert.rejects(context.decode([1], { sequence: 3 }), isEmber("INVALID_ARGUMENT", "3"));
  const aborted = AbortSignal.abort(new Error("enough"));
  await assert.rejects(context.decode([1], { signal: aborted }), aborted.reason);
  assert.throws(() => sampler.sample([1, 2]), isEmber("INVALID_ARGUMENT", "Float32Array"));
});

test("a sampler goes on from generation to generation, and its copy by itself", async () => {
  const sampler = model.sampler({ temperature: 1.3, seed: 11 });
  assert.equal(sampler.seed, 11n);
  const copy = sampler.clone();
  const using = (one) => draw({ seed: undefined, sampler: one });
  const [first, second] = [await using(sampler), await using(sampler)];
  assert.notDeepEqual(first, second);
  assert.deepEqual([await using(copy), await using(copy)], [first, second]);
  sampler.reset();
  assert.deepEqual(await using(sampler), first);
  assert.deepEqual(await draw({ temperature: 1.3, seed: 11 }), first);
  assert.ok(new Sampler().seed > 0n);
  await assert.rejects(draw({ sampler, seed: undefined, topK: 3 }), isEmber("INVALID_ARGUMENT", "topK"));
  await assert.rejects(draw({ sampler: {}, seed: undefined }), isEmber("INVALID_ARGUMENT", "Sampler"));
  sampler.close();
  assert.throws(() => sampler.accept(1), isEmber("CLOSED", "sampler"));
  await assert.rejects(using(sampler), isEmber("CLOSED", "sampler"));
});

test("a stage of one's own, on the thread of JavaScript", async () => {
  const [sea] = model.tokenize(" sea", { addSpecial: false });
  let calls = 0;
  const candidates = (tokens, logits) => {
    calls++;
    assert.equal(tokens.length, logits.length);
    logits.fill(-Infinity);
    logits[tokens.indexOf(sea)] = 1;
  };
  assert.deepEqual(await draw({ candidates, maxTokens: 3 }), [sea, sea, sea]);
  assert.equal(calls, 3);
  const reason = new Error("not so");
  await assert.rejects(draw({ candidates: () => { throw reason; } }), reason);
  await assert.rejects(draw({ candidates: 5 }), isEmber("INVALID_ARGUMENT", "candidates"));
  // By hand it runs within the call; a copy has it after the sampler was closed.
  const sampler = new Sampler({ candidates: (_, logits) => logits.reverse() });
  const copy = sampler.clone();
  sampler.close();
  assert.equal(copy.sample(Float32Array.from([100, 0, -100])), 2);
  copy.close();
  assert.throws(() => new Sampler({ candidates: () => { throw reason; } }).sample(new Float32Array(3)), reason);
  const engine = model.engine({ nParallel: 1, nThreads: 1, nCtx: 64 });
  assert.throws(() => engine.submit("a", { candidates }), isEmber("INVALID_ARGUMENT", "candidates"));
  engine.close();
});

test("a sampler follows a constraint", async () => {
  const constraint = await Constraint.choices(model, [" the sea"]);
  const sampler = new Sampler({ constraint, greedy: true });
  constraint.close(); // the sampler keeps what it needs
  assert.equal(sampler.progress, "unfinished");
  const text = model.tokenizer.detokenize([32, ...(await draw({ sampler, seed: undefined }))]).slice(1);
  assert.equal(text, " the sea");
  assert.equal(sampler.progress, "complete");
});

test("a model's file proposes stages", async () => {
  assert.throws(() => model.proposedSampler(), isEmber("NOT_FOUND", ""));
  const proposing = await Model.load(path, { metadata: { "general.sampling.top_k": 1 } });
  const logits = Float32Array.from([1, 2, 1.9, 1.8]);
  const drawn = (sampler) => new Set(Array.from({ length: 50 }, () => sampler.sample(logits)));
  assert.deepEqual([...drawn(proposing.proposedSampler({ seed: 1 }))], [1]);
  assert.ok(drawn(new Sampler({ seed: 1 })).size > 1);
});
