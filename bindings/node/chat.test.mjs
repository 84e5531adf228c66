// Tests of conversations, tools and constraints, on the bundled model and on EMBER_TOOLS_MODEL, which ../tool_model.py writes.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { Constraint, Model } from "./ember.mjs";
import { all, isEmber, path } from "./helpers.mjs";

const template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", parameters: city } }];
const toolsModel = process.env.EMBER_TOOLS_MODEL ?? "";

async function newContext(nCtx = 256) {
  const model = await Model.load(path);
  const context = model.context({ nCtx, nThreads: 1 });
  model.close();
  return context;
}

test("turns run their own tokens and are kept", async () => {
  const context = await newContext();
  const options = { template, maxTokens: 8 };
  const conversation = await context.conversation({ ...options, system: "Be brief. Grüße 🌙" });
  const first = await all(conversation.send("Tell of the sea."));
  assert.ok(first.text.length > 0 && first.list.slice(0, -1).every((event) => event.kind === "text"));
  assert.deepEqual([first.end.kind, first.end.finishReason], ["end", "max_tokens"]);
  const saved = conversation.save();
  const { text } = await all(conversation.send("Go on."));
  const { usage, messages } = conversation;
  assert.ok(usage.reusedTokens > 0 && usage.reusedTokens < usage.promptTokens && usage.generatedTokens === 8);
  assert.deepEqual(messages.map((message) => message.role), ["system", "user", "assistant", "user", "assistant"]);
  assert.equal(messages[0].content, "Be brief. Grüße 🌙");
  assert.equal(messages[2].content, first.text);
  conversation.undo();
  assert.equal((await all(conversation.send("Go on."))).text, text);
  const loaded = await context.conversation({ ...options, saved });
  assert.equal((await all(loaded.send("Go on."))).text, text);
  await assert.rejects(context.conversation({ ...options, saved: saved.slice(0, 20) }), isEmber("FORMAT", "damaged"));
  await assert.rejects(context.conversation({ ...options, saved, system: "x" }), isEmber("INVALID_ARGUMENT", "system"));
  const drawn = await context.conversation({ ...options, temperature: 0.8, seed: 3 });
  assert.ok((await all(drawn.send("Why?"))).text.length > 0);
  for (const one of [conversation, loaded, drawn, context]) one.close();
  await assert.rejects(all(conversation.send("More.")), isEmber("CLOSED", "conversation"));
});

test("a loop that is left gives the reply up, and a signal ends it", async () => {
  const context = await newContext();
  const conversation = await context.conversation({ template, maxTokens: 100 });
  for await (const _ of conversation.send("Why?")) {
    await assert.rejects(all(conversation.send("x")), isEmber("BUSY", "at work"));
    assert.throws(() => conversation.add({ role: "user", content: "x" }), isEmber("BUSY", "under way"));
    break;
  }
  assert.deepEqual(conversation.messages, [{ role: "user", content: "Why?" }]);
  const abort = new AbortController();
  const reason = new Error("enough");
  let seen = 0;
  await assert.rejects(async () => {
    for await (const _ of conversation.send("", { signal: abort.signal })) if (++seen === 3) abort.abort(reason);
  }, reason);
  assert.equal(seen, 3);
  await assert.rejects(all(conversation.send("x", { signal: abort.signal })), reason);
  conversation.undo();
  assert.equal((await all(conversation.send("Go on.", { signal: new AbortController().signal }))).end.kind, "end");
  await assert.rejects(async () => {
    for await (const _ of conversation.send("Once more.")) conversation.close();
  }, isEmber("CLOSED", "conversation"));
  context.close();
});

test("the event loop goes on", async () => {
  const context = await newContext(512);
  const conversation = await context.conversation({ template, maxTokens: 4 });
  let turns = 0;
  let running = true;
  const turn = () => (turns++, running && setImmediate(turn));
  setImmediate(turn);
  const perEvent = [];
  for await (const _ of conversation.send("The sea was calm. ".repeat(60))) {
    perEvent.push(turns);
    turns = 0;
  }
  running = false;
  // While the prompt was run, which takes many milliseconds, the loop turned many times.
  assert.ok(perEvent[0] > 5, `turns for each event: ${perEvent}`);
  context.close();
});

test("a copy of a conversation goes on by itself", async () => {
  const model = await Model.load(path);
  const context = model.context({ nCtx: 256, nThreads: 1, nSeq: 2 });
  const conversation = await context.conversation({ template, maxTokens: 8, temperature: 0.9, seed: 4 });
  await all(conversation.send("Tell of the sea."));
  const copy = conversation.fork(1);
  assert.deepEqual(copy.messages, conversation.messages);
  // The random numbers go on as in the other one, and the copy runs only what is new.
  const { text } = await all(copy.send("Go on."));
  assert.ok(copy.usage.reusedTokens > 8, `${copy.usage.reusedTokens} tokens of the copy's sequence`);
  assert.ok(copy.usage.prefillMs > 0 && copy.usage.decodeMs > 0);
  assert.equal(conversation.messages.length, 2);
  assert.equal((await all(conversation.send("Go on."))).text, text);
  assert.throws(() => conversation.fork(2), isEmber("INVALID_ARGUMENT", "2"));
  assert.throws(() => conversation.fork(-1), isEmber("INVALID_ARGUMENT", "-1"));
  conversation.close();
  // What both had goes with the last of them; a signal still ends the copy's replies.
  const abort = new AbortController();
  const reason = new Error("enough");
  await assert.rejects(async () => {
    for await (const _ of copy.send("Why?", { signal: abort.signal })) abort.abort(reason);
  }, reason);
  assert.ok((await all(copy.send("Once more."))).text.length > 0);
  copy.close();
  assert.throws(() => copy.fork(0), isEmber("CLOSED", "conversation"));
});

test("what is dropped is the caller's to say", async () => {
  const context = await newContext(96);
  const conversation = await context.conversation({ template, maxTokens: 8 });
  const asked = [];
  conversation.setOnFull((tokens, nCtx, turns) => {
    asked.push([tokens > 0, nCtx, turns]);
    return turns;
  });
  for (let i = 0; i < 6; i++) await all(conversation.send("Tell of the sea and the moon."));
  assert.ok(asked.length > 0 && asked.every(([some, nCtx, turns]) => some && nCtx === 96 && turns > 0));
  const reason = new Error("nothing");
  conversation.setOnFull(() => {
    throw reason;
  });
  await assert.rejects(async () => {
    for (let i = 0; i < 6; i++) await all(conversation.send("Tell of the sea and the moon."));
  }, reason);
  conversation.setOnFull(() => 0);
  await assert.rejects(all(conversation.send("Tell of the sea and the moon.")), isEmber("CONTEXT_FULL", ""));
  conversation.setOnFull();
  assert.ok((await all(conversation.send("Tell of the sea and the moon."))).text.length > 0);
  assert.throws(() => conversation.setOnFull(5), isEmber("INVALID_ARGUMENT", "function"));
  context.close();
});

test("what does not fit or is not known is refused", async () => {
  const context = await newContext(96);
  await assert.rejects(context.conversation({ template, tool: [] }), isEmber("INVALID_ARGUMENT", '"tool"'));
  await assert.rejects(context.conversation({ template, thinking: true }), isEmber("UNSUPPORTED", "switches thinking"));
  await assert.rejects(context.conversation({ template, tools }), isEmber("UNSUPPORTED", "tools"));
  await assert.rejects(context.conversation(), isEmber("UNSUPPORTED", "template"));
  const conversation = await context.conversation({ template, maxTokens: 8 });
  await assert.rejects(all(conversation.send()), isEmber("INVALID_ARGUMENT", "no message to reply to"));
  assert.throws(() => conversation.setThinkingBudget(5), isEmber("UNSUPPORTED", "marks of thoughts"));
  assert.throws(() => conversation.setWhenFull("never"), isEmber("INVALID_ARGUMENT", "never"));
  assert.throws(() => conversation.add({ role: "king", content: "x" }), isEmber("INVALID_ARGUMENT", "king"));
  let dropped = 0;
  for (let i = 0; i < 10; i++) {
    await all(conversation.send("Tell of the sea and the moon."));
    dropped += conversation.usage.droppedTurns;
  }
  assert.ok(dropped > 2);
  conversation.setWhenFull("refuse", 20);
  await assert.rejects(all(conversation.send("And the boat?")), isEmber("CONTEXT_FULL", "no turn may be dropped"));
});

test("texts follow constraints", async () => {
  const model = await Model.load(path);
  const context = model.context({ nThreads: 1 });
  const constrained = async (making, options) => {
    const constraint = await making;
    context.rewind();
    const done = await all(context.generate("The king said", { maxTokens: 200, temperature: 1.5, seed: 5, constraint, ...options }));
    constraint.close();
    return [done.text, done.end.usage.progress, done.end.finishReason];
  };
  const schema = { type: "object", properties: { answer: { enum: ["yes", "no"] } }, required: ["answer"], additionalProperties: false };
  for (const given of [schema, JSON.stringify(schema)]) {
    const [text, ...how] = await constrained(Constraint.jsonSchema(model, given));
    assert.match(JSON.parse(text).answer, /^(yes|no)$/);
    assert.deepEqual(how, ["complete", "eog"]);
  }
  assert.match((await constrained(Constraint.regex(model, "[a-c]{3}-[0-9]{1,3}0")))[0], /^[a-c]{3}-[0-9]{1,3}0$/);
  assert.deepEqual(await constrained(Constraint.lark(model, 'start: "ab" "cd"\n')), ["abcd", "complete", "eog"]);
  assert.match((await constrained(Constraint.choices(model, ["Grüße", "🌙", "b\0"])))[0], /^(Grüße|🌙|b\0)$/u);
  assert.equal((await constrained(Constraint.jsonObject(model), { maxTokens: 1 }))[1], "unfinished");
  const waits = Constraint.jsonObject(model, { triggers: ["never said"], whitespace: 0, repeat: true });
  assert.equal((await constrained(waits, { maxTokens: 4 }))[1], "waiting");
  const [comma] = model.tokenize(",", { addSpecial: false });
  context.rewind();
  const after = await Constraint.choices(model, [" he said"], { triggerTokens: [comma] });
  assert.equal((await all(context.generate("Once upon a time", { maxTokens: 9, constraint: after }))).text, ", he said");
  after.close();
  await assert.rejects(all(context.generate("Once", { constraint: after })), isEmber("CLOSED", "constraint"));
  await assert.rejects(all(context.generate("Once", { constraint: "x" })), isEmber("INVALID_ARGUMENT", "constraint"));
  await assert.rejects(Constraint.jsonSchema(model, { propertyNames: { maxLength: 3 } }), isEmber("UNSUPPORTED", "propertyNames"));
  await assert.rejects(Constraint.choices(model, []), isEmber("INVALID_ARGUMENT", "choices"));
  await assert.rejects(Constraint.regex(model, "a{9}", { limits: { source: 3 } }), isEmber("INVALID_ARGUMENT", "3"));
  await assert.rejects(Constraint.regex(model, "a", { limits: { size: 3 } }), isEmber("INVALID_ARGUMENT", '"size"'));
  await assert.rejects(Constraint.regex(model, "a", { trigger: "x" }), isEmber("INVALID_ARGUMENT", '"trigger"'));
  await assert.rejects(Constraint.regex(model, "a", { triggers: "x" }), isEmber("INVALID_ARGUMENT", "triggers"));
});

test("users cannot spell control tokens", async () => {
  const model = await Model.load(path);
  const plain = { template: "{{ messages[0].content }}" };
  const end = [{ role: "user", content: "<|endoftext|>" }];
  assert.deepEqual(model.tokenizeChat(end, plain), model.tokenize("<|endoftext|>"));
  assert.equal(model.applyChatTemplate(end, plain), "<|endoftext|>");
});

test("calls of one's own generations are held to their schemas", async (t) => {
  const plain = await Model.load(path);
  assert.equal(await Constraint.chat(plain, { template }), undefined);
  await assert.rejects(Constraint.chat(plain, { tool: [] }), isEmber("INVALID_ARGUMENT", '"tool"'));
  if (!existsSync(toolsModel)) return t.skip("EMBER_TOOLS_MODEL names no model");
  const model = await Model.load(toolsModel);
  const messages = [{ role: "user", content: "What is the weather in Bern?" }];
  const options = { tools, now: new Date(2024, 1, 29) };
  const prompt = model.applyChatTemplate(messages, options);
  const reply = { tools, toolChoice: "weather" };
  const constraint = await Constraint.chat(model, { prompt, ...reply });
  const parser = model.chatParser(prompt, reply);
  const calls = [];
  const how = { constraint, renderSpecial: true, parseSpecial: true, maxTokens: 60 };
  for await (const event of model.context().generate(prompt, how)) {
    calls.push(...parser.push(event.text), ...(event.kind === "end" ? parser.finish(event.finishReason) : []));
  }
  assert.deepEqual(calls.filter((event) => event.kind === "call").map((event) => event.arguments), [{ city: "Bern" }]);
});

test("a model calls a tool and answers with its result", async (t) => {
  if (!existsSync(toolsModel)) return t.skip("EMBER_TOOLS_MODEL names no model");
  const model = await Model.load(toolsModel);
  const context = model.context();
  const conversation = await context.conversation({ tools, maxTokens: 40 });
  const { list } = await all(conversation.send("What is the weather in Paris?"));
  assert.equal(list[0].kind, "call_begin");
  const call = list.find((event) => event.kind === "call");
  assert.deepEqual([call.name, call.arguments, call.index], ["weather", { city: "Paris" }, 0]);
  assert.equal(list.filter((event) => event.kind === "call_arguments").map((event) => event.text).join(""), call.text);
  conversation.add({ role: "tool", tool_call_id: call.id, name: call.name, content: "It is sunny, 21 degrees." });
  assert.match((await all(conversation.send())).text, /sunny/);
  assert.deepEqual(conversation.messages.map((message) => message.role), ["user", "assistant", "tool", "assistant"]);
  // The choice of one reply.
  assert.throws(() => conversation.setToolChoice("sing"), isEmber("INVALID_ARGUMENT", "tool_choice"));
  for (const [choice, calls] of [["none", false], ["required", true]]) {
    conversation.setToolChoice(choice);
    const reply = await all(conversation.send("What is the weather in Bern?"));
    assert.equal(reply.list.some((event) => event.kind === "call"), calls);
  }
  conversation.close();
  const must = await context.conversation({ tools, toolChoice: "required", parallelCalls: false, maxTokens: 60 });
  const calls = (await all(must.send("What is the weather in Bern?"))).list.filter((event) => event.kind === "call");
  assert.deepEqual(calls.map((one) => one.arguments), [{ city: "Bern" }]);
  await assert.rejects(context.conversation({ tools, toolChoice: "sing" }), isEmber("INVALID_ARGUMENT", "tool_choice"));
  context.close();
  model.close();
});

const readme = readFileSync(new URL("README.md", import.meta.url), "utf8");
const blocks = [...readme.matchAll(/```js\n([^]*?)```/g)].map(([, block]) => block);

async function printed(program, model) {
  const here = program.replace('"./ember.mjs"', JSON.stringify(new URL("ember.mjs", import.meta.url)));
  const arguments_ = ["--input-type=module", "-e", here.replace(/"\w+.gguf"/, JSON.stringify(model))];
  return (await promisify(execFile)(process.execPath, arguments_)).stdout;
}

test("the streamed chat with a tool of the README", async (t) => {
  if (!existsSync(toolsModel)) return t.skip("EMBER_TOOLS_MODEL names no model");
  const [program] = blocks.filter((block) => block.includes("tools.gguf"));
  assert.ok(program.split("\n").length < 20);
  assert.match(await printed(program, toolsModel), /sunny.*21 degrees/);
});

test("the part of a program in the README", async () => {
  const parts = blocks.filter((block) => !block.includes("import "));
  assert.equal(parts.length, 1);
  const start = 'import { Constraint, Model } from "./ember.mjs"; const model = await Model.load("model.gguf"); const context = model.context();';
  assert.match(await printed(start + parts[0], path), /^\{\s*"answer"\s*:\s*"(yes|no)"\s*\}/);
});
