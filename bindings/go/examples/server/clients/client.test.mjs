// The official OpenAI package for Node, unchanged, against the example server; test.sh starts the servers.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";

const { EMBER_URL, EMBER_SMALL_URL, EMBER_REAL_URL, EMBER_ROOT } = process.env;
const connect = (url, apiKey = "secret", maxRetries = 0) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries });
const client = connect(EMBER_URL);
const real = connect(EMBER_REAL_URL);
const say = (content) => [{ role: "user", content }];
const greedy = { model: "toy", messages: say("The sea was calm."), temperature: 0, max_tokens: 16 };
// Takes the real model some seconds, and nothing but a cancellation ends it before.
const endless = { model: "smollm2", messages: greedy.messages, max_tokens: 3000, logit_bias: { 0: -100, 2: -100 } };

async function metric(line, url = EMBER_URL) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = text.split("\n").find((l) => l.startsWith(`${line} `));
  assert.ok(found, `/metrics has ${line}`);
  return Number(found.slice(line.length));
}

async function waitFor(line, value, url) {
  for (let i = 0; i < 1200; i++) {
    if ((await metric(line, url)) === value) return;
    await sleep(50);
  }
  assert.equal(await metric(line, url), value, line);
}

// Skips a test, and says so, while the server refuses what it is about.
async function needs(t, what, call) {
  try {
    return await call();
  } catch (refusal) {
    if (refusal.code !== "unsupported_parameter") throw refusal;
    t.skip(`SKIPPED: ${what}: ${refusal.message}`);
    return undefined;
  }
}

test("chat", async () => {
  const answer = await client.chat.completions.create(greedy);
  assert.equal(answer.object, "chat.completion");
  assert.ok(answer.choices[0].message.content);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.match(answer._request_id, /^req-/);
});

test("chat with a real model", async () => {
  const answer = await real.chat.completions.create({
    model: "smollm2", messages: say("What is the capital of France?"), temperature: 0, max_tokens: 6,
  });
  assert.equal(answer.choices[0].message.content, "L'Étoile,");
});

test("stream", async () => {
  const whole = await client.chat.completions.create(greedy);
  let text = "";
  let usage;
  for await (const chunk of await client.chat.completions.create({ ...greedy, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.total_tokens, whole.usage.total_tokens);
  const final = await client.chat.completions.stream({ ...greedy, n: 2 }).finalChatCompletion();
  assert.deepEqual(final.choices.map((c) => c.message.content), [text, text]);
});

test("logprobs, n, seeds", async () => {
  const options = { ...greedy, temperature: 1, seed: 5, n: 3, logprobs: true, top_logprobs: 2 };
  const answer = await client.chat.completions.create(options);
  const texts = answer.choices.map((c) => c.message.content);
  assert.ok(new Set(texts).size > 1);
  for (const { logprobs, message } of answer.choices) {
    const bytes = Buffer.from(logprobs.content.flatMap((token) => token.bytes));
    assert.equal(bytes.toString(), message.content);
    for (const token of logprobs.content) assert.equal(token.top_logprobs.length, 2);
  }
  const again = await client.chat.completions.create(options);
  assert.deepEqual(again.choices.map((c) => c.message.content), texts);
});

test("errors", async () => {
  const expect = async (kind, code, call) => assert.rejects(call, (error) => error instanceof kind && error.code === code);
  await expect(OpenAI.AuthenticationError, "invalid_api_key", () => connect(EMBER_URL, "wrong").models.list());
  await expect(OpenAI.NotFoundError, "model_not_found", () => client.chat.completions.create({ ...greedy, model: "gpt-4o" }));
  await expect(OpenAI.BadRequestError, "context_length_exceeded", () =>
    client.chat.completions.create({ ...greedy, messages: say("The sea was calm. ".repeat(500)) }));
  await expect(OpenAI.BadRequestError, "invalid_value", () => client.chat.completions.create({ ...greedy, top_p: 2 }));
  await expect(OpenAI.BadRequestError, "unsupported_parameter", () => client.chat.completions.create({ ...greedy, verbosity: "low" }));
});

test("cancellation by disconnect", async () => {
  const [cancelled, submitted, active] = ["cancelled_total", "submitted_total", "active"].map((name) => `ember_requests_${name}{model="smollm2"}`);
  const before = await metric(cancelled, EMBER_REAL_URL);
  const stream = await real.chat.completions.create({ ...endless, stream: true });
  let seen = 0;
  for await (const _ of stream) if (++seen === 3) break; // leaving the loop closes the connection
  await waitFor(cancelled, before + 1, EMBER_REAL_URL);
  const leave = new AbortController();
  const taken = await metric(submitted, EMBER_REAL_URL);
  const whole = real.chat.completions.create(endless, { signal: leave.signal });
  const left = assert.rejects(whole, OpenAI.APIUserAbortError);
  await waitFor(submitted, taken + 1, EMBER_REAL_URL);
  leave.abort();
  await left;
  await waitFor(cancelled, before + 2, EMBER_REAL_URL);
  await waitFor(active, 0, EMBER_REAL_URL);
});

test("a full queue", async () => {
  const small = connect(EMBER_SMALL_URL);
  const short = { ...endless, max_tokens: 2 };
  const running = await small.chat.completions.create({ ...endless, stream: true });
  const waits = small.chat.completions.create(short).then((answer) => answer); // a request is sent when somebody waits for it
  await waitFor('ember_requests_queued{model="smollm2"}', 1, EMBER_SMALL_URL);
  await assert.rejects(small.chat.completions.create(short), OpenAI.RateLimitError);
  running.controller.abort();
  const patient = connect(EMBER_SMALL_URL, "any", 50);
  assert.ok((await patient.chat.completions.create(short)).choices.length);
  assert.ok((await waits).choices.length);
});

test("completions", async () => {
  const answer = await client.completions.create({
    model: "toy", prompt: ["The sea", "The wolf"], max_tokens: 3, temperature: 0, echo: true, logprobs: 1,
  });
  assert.deepEqual(answer.choices.map((c) => c.logprobs.tokens.join("")), answer.choices.map((c) => c.text));
});

test("embeddings", async () => {
  const known = JSON.parse(readFileSync(`${EMBER_ROOT}/tests/fixtures/embeddings/minilm.json`)); // by transformers
  const pairs = known.pairs.filter(({ a, b }) => a && b);
  const answer = await real.embeddings.create({ model: "minilm", input: pairs.flatMap(({ a, b }) => [a, b]) });
  const vectors = answer.data.map((e) => e.embedding);
  const dot = (a, b) => a.reduce((sum, x, j) => sum + x * b[j], 0);
  assert.ok(dot(vectors[0], known.first_vector) > 0.9999);
  pairs.forEach(({ cosine }, i) => assert.ok(Math.abs(dot(vectors[2 * i], vectors[2 * i + 1]) - cosine) < 1e-3));
});

test("models", async () => {
  const names = [];
  for await (const model of real.models.list()) names.push(model.id);
  assert.deepEqual(names, ["smollm2", "minilm"]);
  assert.equal((await client.models.retrieve("toy")).id, "toy");
});

test("64 clients at once get what each gets alone", async () => {
  const options = (i) => ({
    model: "toy", messages: say(`Tale number ${i} is of a queen.`), max_tokens: 24,
    ...(i % 2 ? { temperature: 0 } : { temperature: 1.1, seed: i }),
  });
  const one = async (i) => (await client.chat.completions.create(options(i))).choices[0].message.content;
  const alone = [];
  for (let i = 0; i < 64; i++) alone.push(await one(i));
  assert.ok(new Set(alone).size > 32);
  assert.deepEqual(await Promise.all(alone.map((_, i) => one(i))), alone);
});

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: { type: "object", properties: { place: { enum: ["Paris", "Rome"] } }, required: ["place"], additionalProperties: false },
  },
};

test("tools", async (t) => {
  const options = { ...greedy, tools: [weather], tool_choice: "required", parallel_tool_calls: false, max_tokens: 200 };
  const answer = await needs(t, "tools", () => client.chat.completions.create(options));
  if (!answer) return;
  const [call] = answer.choices[0].message.tool_calls;
  assert.equal(call.function.name, "get_weather");
  assert.ok(["Paris", "Rome"].includes(JSON.parse(call.function.arguments).place));
  const final = await client.chat.completions.stream(options).finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
});

test("schemas", async (t) => {
  const schema = { type: "object", properties: { answer: { enum: ["yes", "no"] } }, required: ["answer"], additionalProperties: false };
  const response_format = { type: "json_schema", json_schema: { name: "reply", strict: true, schema } };
  const answer = await needs(t, "json_schema", () => client.chat.completions.create({ ...greedy, response_format, max_tokens: 200 }));
  if (!answer) return;
  assert.ok(["yes", "no"].includes(JSON.parse(answer.choices[0].message.content).answer));
});
