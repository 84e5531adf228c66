// Tests of tokenizers, the parser of replies, and what else an app is built from, on the bundled model.
import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Model, Tokenizer } from "./ember.mjs";
import { all, golden, isEmber, path, root, shift } from "./helpers.mjs";

test("a tokenizer alone is as the model's", async () => {
  const model = await Model.load(path);
  const own = model.tokenizer;
  const text = "Once upon a time, Grüße 🌙";
  const tokens = model.tokenize(text);
  model.close();
  for (const tokenizer of [own, await Tokenizer.load(path), await Tokenizer.load(readFileSync(path))]) {
    assert.deepEqual(tokenizer.tokenize(text), tokens);
    assert.equal(tokenizer.count(text), tokens.length);
    assert.equal(tokenizer.detokenize(tokens), text);
    assert.equal(Buffer.concat(Array.from(tokens, (token) => Buffer.from(tokenizer.bytes(token)))).toString().trim().endsWith("🌙"), true);
    const { info } = tokenizer;
    assert.equal(info.vocabularySize, model_info.vocabularySize);
    assert.equal(info.eos, model_info.eos);
    const [end] = tokenizer.tokenize("<|endoftext|>", { parseSpecial: true, addSpecial: false });
    assert.ok(tokenizer.isControl(end) && tokenizer.isEndOfGeneration(end));
    assert.ok(!tokenizer.isControl(tokens.at(-1)) && !tokenizer.isEndOfGeneration(tokens.at(-1)));
    assert.deepEqual([tokenizer.detokenize([end]), tokenizer.detokenize([end], { renderSpecial: true })], ["", "<|endoftext|>"]);
    assert.equal(info.fimMiddle, undefined);
    assert.throws(() => tokenizer.fimPrompt("a", "b"), isEmber("UNSUPPORTED", "fill"));
    assert.throws(() => tokenizer.bytes(info.vocabularySize), isEmber("INVALID_ARGUMENT", String(info.vocabularySize)));
    assert.throws(() => tokenizer.tokenize("a", { special: true }), isEmber("INVALID_ARGUMENT", '"special"'));
    tokenizer.close();
    assert.throws(() => tokenizer.count("a"), isEmber("CLOSED", "tokenizer"));
  }
  await assert.rejects(Tokenizer.load("no.gguf"), isEmber("IO", "no.gguf"));
  await assert.rejects(Tokenizer.load(new Uint8Array(8)), isEmber("FORMAT", "<buffer>"));
});

const model_info = await Model.load(path).then((model) => model.info);

test("a parser reads calls, thoughts and text out of a reply", async () => {
  const model = await Model.load(path);
  const template =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}{% if tools %}<tool_call>{{ tools | tojson }}" +
    "</tool_call>{% endif %}{% if enable_thinking %}<think>{% endif %}</think>";
  const city = { type: "object", properties: { city: { type: "string" } } };
  const tools = [{ type: "function", function: { name: "weather", parameters: city } }];
  const parser = model.chatParser("", { template, tools });
  assert.deepEqual([parser.format.calls, parser.format.thinkingClose], ["hermes", "</think>"]);
  const reply = '<think>Hm.</think>Let me see.<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>';
  const events = [];
  const thought = [];
  for (const piece of reply.match(/[^]{1,3}/g)) {
    events.push(...parser.push(piece));
    thought.push(parser.isThinking);
  }
  events.push(...parser.finish("eog"));
  const said = (kind) => events.filter((event) => event.kind === kind).map((event) => event.text).join("");
  assert.deepEqual([said("thinking"), said("text")], ["Hm.", "Let me see."]);
  assert.ok(thought.includes(true) && !thought.at(-1));
  const [call] = events.filter((event) => event.kind === "call");
  assert.deepEqual([call.name, call.arguments], ["weather", { city: "Bern" }]);
  assert.equal(events.filter((event) => event.kind === "call_arguments").map((event) => event.text).join(""), call.text);
  assert.throws(() => parser.finish("tired"), isEmber("INVALID_ARGUMENT", "tired"));
  parser.close();
  assert.throws(() => parser.push("a"), isEmber("CLOSED", "parser"));
  assert.throws(() => model.chatParser("", {}), isEmber("UNSUPPORTED", "template"));
  assert.throws(() => model.chatParser("", { template, tools, toolChoice: "sing" }), isEmber("INVALID_ARGUMENT", "tool_choice"));
});

test("bytes and open files are models", async () => {
  const bytes = readFileSync(path);
  const fd = openSync(path);
  const models = [await Model.load(bytes), await Model.load({ fd }), await Model.load({ fd, offset: 0, length: bytes.length })];
  closeSync(fd);
  for (const model of models) {
    const context = model.context();
    assert.equal((await all(context.generate(golden.prompt, { maxTokens: golden.max_tokens }))).text, golden.text);
    context.close();
    model.close();
  }
  await assert.rejects(Model.load(new Uint8Array(8)), isEmber("FORMAT", "<buffer>"));
  await assert.rejects(Model.load({ fd: "x" }), isEmber("INVALID_ARGUMENT", "fd"));
  await assert.rejects(Model.load({ fd: 0, size: 1 }), isEmber("INVALID_ARGUMENT", '"size"'));
});

test("sequences, states and memory", async () => {
  const model = await Model.load(path);
  const context = model.context({ nCtx: 128, nSeq: 2, nThreads: 1 });
  const generate = (prompt, maxTokens, sequence) => all(context.generate(prompt, { maxTokens, sequence }));
  const [event] = (await all(context.generate(golden.prompt, { maxTokens: 1, topLogprobs: 2 }))).list;
  assert.deepEqual([event.top.length, event.top[0].token], [2, event.token]);
  context.rewind();
  const first = await generate(golden.prompt, 8, 1);
  assert.deepEqual([context.past(0), context.past(1)], [0, first.end.usage.promptTokens + 8]);
  context.copySequence(1, 0, context.past(1));
  const state = context.saveState(1);
  const rest = (await generate("", 8, 0)).text;
  assert.ok(golden.text.startsWith(first.text + rest));
  context.loadState(state, 1);
  assert.equal((await generate("", 8, 1)).text, rest);
  const other = model.context({ nCtx: 128, nThreads: 1 });
  other.loadState(state);
  assert.equal((await all(other.generate("", { maxTokens: 8 }))).text, rest);
  context.rewind(0, 1);
  assert.equal(context.past(1), 0);
  assert.throws(() => other.loadState(state.slice(0, 40)), isEmber("FORMAT", ""));
  assert.throws(() => context.saveState(2), isEmber("INVALID_ARGUMENT", "2"));
  assert.throws(() => context.past(-1), isEmber("INVALID_ARGUMENT", "-1"));
  const estimate = Model.estimateMemory(path, { nCtx: 128, nSeq: 2, nThreads: 1 });
  assert.ok(estimate.kv > 0 && estimate.file > 0);
  assert.equal(estimate.kv, context.memory.kv);
  assert.throws(() => Model.estimateMemory("no.gguf"), isEmber("IO", "no.gguf"));
});

test("draft tokens, shifts and time limits", async () => {
  const model = await Model.load(path);
  const context = model.context({ nThreads: 1 });
  const draft = { context: model.context({ nThreads: 1 }), count: 3 };
  for (const drafts of [{ lookup: { count: 4 } }, { draft }]) {
    context.rewind();
    const { text, end } = await all(context.generate(golden.prompt, { maxTokens: golden.max_tokens, ...drafts }));
    assert.equal(text, golden.text);
    if (drafts.draft) assert.ok(end.usage.draftedTokens > 0 && end.usage.acceptedTokens > 0);
  }
  const small = (await Model.load(root + shift.model)).context({ nCtx: shift.n_ctx, nThreads: 1 });
  const { n_keep: keep, n_drop: drop } = shift;
  const moved = await all(small.generate(shift.prompt_tokens, { maxTokens: shift.max_tokens, shift: { keep, drop } }));
  assert.deepEqual(moved.list.slice(0, -1).map((event) => event.token), shift.tokens);
  assert.deepEqual([moved.end.usage.shiftedTokens, moved.end.finishReason], [shift.n_shifted, shift.finish]);
  context.rewind();
  const late = await all(context.generate(golden.prompt, { maxTokens: 1000, ignoreEog: true, timeLimit: 1 }));
  assert.equal(late.end.finishReason, "time_limit");
  const refused = (options, says) => assert.rejects(all(context.generate("a", options)), isEmber("INVALID_ARGUMENT", says));
  await refused({ lookup: { n: 4 } }, '"n"');
  await refused({ draft: { context: 5 } }, "draft.context");
  await refused({ sequence: -1 }, "sequence");
  await refused({ sequence: 7 }, "7");
  await refused({ penalties: { last: 1, repeat: 0 } }, "0");
});

test("stages in a row", async () => {
  const model = await Model.load(path);
  const context = model.context({ nThreads: 1 });
  const draw = async (options) => {
    context.rewind();
    return (await all(context.generate("The wolf said", { maxTokens: 12, seed: 5, ...options }))).text;
  };
  const stages = { penalties: { repeat: 1.3 }, topNSigma: 1.5, typicalP: 0.9, xtc: { probability: 0.5, threshold: 0.1 }, temperature: 1.2 };
  const texts = await Promise.resolve([await draw(stages), await draw(stages), await draw({ temperature: 1.2 })]);
  assert.equal(texts[0], texts[1]);
  assert.notEqual(texts[0], texts[2]);
  const greedy = await draw({ topK: 1 });
  assert.notEqual(await draw({ topK: 1, penalties: { last: 64, presence: 100 } }), greedy);
});
