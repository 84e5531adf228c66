// A use of every part of the package, for the compiler of TypeScript alone: tsc --noEmit. The lines that it must refuse say so.
import {
  ALL_SEQUENCES, Constraint, EmberError, Model, Sampler, Tokenizer, buildInfo, hasFeature, setLog, version,
  type Context, type Event, type Memory, type Metrics, type ReplyEvent, type Score, type Timings, type Usage,
} from "ember-inference";
import type { Model as OfFile } from "./ember.mjs";

async function models(path: string, signal: AbortSignal): Promise<Model> {
  const model = await Model.load(path, { signal, progress: (done: number) => done < 0.5, mmap: false, pack: "never", metadata: { a: 1, b: { float: 1 } } });
  await Model.load(new Uint8Array(8), { borrow: true, released: () => {} });
  await Model.load({ fd: 3, offset: 0 });
  // @ts-expect-error: bytes alone are borrowed
  await Model.load(path, { borrow: true });
  // @ts-expect-error: there is no such option
  await Model.load(path, { map: true });
  const estimate: Memory = Model.estimateMemory(path, { nCtx: 128, mmap: true });
  const { info, labels, metadataKeys } = model;
  const bos: number | undefined = info.bos;
  console.log(estimate.kv, bos, labels.length, metadataKeys[0], model.metadata("general.name"), model.isa, Model.inspect(path).supported);
  return model;
}

async function generations(model: Model, signal: AbortSignal) {
  using context: Context = model.context({ nCtx: 128, nSeq: 2, kvType: "f16", keepPrefixes: true });
  const sampler: Sampler = model.sampler({ stages: [{ topK: 40 }, { temperature: 0.8 }], seed: 1n });
  const other = new Sampler({ logitBias: { 5: -Infinity }, dry: { breakers: ["\n"] }, candidates: (tokens, logits) => void (logits[0] = tokens[0]!) });
  for await (const event of context.generate("Once", { sampler, signal, shift: { keep: 4, drop: 8 }, draft: { context } })) {
    if (event.kind === "token") console.log(event.token, event.top?.[0]?.logprob);
    if (event.kind === "end") console.log(event.usage.meanLogprob satisfies number, event.finishReason);
    // @ts-expect-error: not each event has a usage
    console.log(event.usage);
  }
  // @ts-expect-error: options are spelled as they are
  context.generate("Once", { max_tokens: 5 });
  const all = context.completions([1, 2], 2, { logprobs: true });
  for (let next = await all.next(); ; next = await all.next()) {
    if (next.done) {
      const usage: Usage | undefined = next.value.usages[next.value.best?.[0] ?? 0];
      console.log(usage?.generatedTokens);
      break;
    }
    const event: Event & { index: number } = next.value;
    console.log(event.index, event.text);
  }
  const logits: Float32Array = await context.decode(Uint32Array.of(1));
  const each: Float32Array[] = await context.decode([1, 2], { all: true, sequence: [0, 1] });
  other.accept(other.sample(each[0] ?? logits));
  const score: Score = await context.score("a", "b", { sequence: 1 });
  // @ts-expect-error: both are texts, or both tokens
  await context.score("a", [1]);
  const timings: Timings = context.timings;
  context.loadState(context.saveState(ALL_SEQUENCES), ALL_SEQUENCES);
  const parts: Uint8Array[] = [];
  await context.writeState((part) => void parts.push(part), 1);
  await context.readState((n) => parts.shift()?.subarray(0, n) ?? new Uint8Array(0));
  console.log(score.greedy, timings.decodeMs, context.info.pages, sampler.seed, other.clone().progress);
  console.log(await context.embed(["a"], { dimensions: 8 }), await context.embedTokens([[1]]), await context.rerank("a", ["b"]));
}

async function conversations(model: Model, context: Context): Promise<Message> {
  const conversation = await context.conversation({ system: "Be brief.", tools: [], toolChoice: "auto", maxTokens: 9, now: new Date() });
  conversation.setWhenFull("refuse", 5);
  conversation.setOnFull((tokens, nCtx, turns) => (tokens > nCtx ? turns : 0));
  const copy = conversation.fork(1);
  for await (const event of copy.send("Hello")) answer(event);
  // @ts-expect-error: a conversation is saved, or has a system text
  await context.conversation({ saved: copy.save(), system: "x" });
  const constraint = await Constraint.chat(model, { tools: [], prompt: "" });
  using regex = await Constraint.regex(model, "a", { limits: { source: 10 } });
  for await (const event of context.chat([{ role: "user", content: "Hi" }], { constraint: constraint ?? regex })) console.log(event.text);
  const parser = model.chatParser("", { tools: [] });
  parser.push("x").concat(parser.finish("eog")).forEach(answer);
  return { role: "tool", content: copy.usage.finishReason ?? parser.format.calls };
}
type Message = Parameters<Model["applyChatTemplate"]>[0][number];

function answer(event: ReplyEvent) {
  switch (event.kind) {
    case "call":
      return event.arguments.city as string;
    case "call_broken":
      return event.reason;
    case "end":
      return event.finishReason;
    default:
      return event.text;
  }
}

async function rest(model: OfFile) {
  const engine = model.engine({ nParallel: 4, nCtx: 64, sharePrefixes: false });
  // @ts-expect-error: an engine says itself how many sequences there are
  model.engine({ nSeq: 4 });
  for await (const event of engine.submit("a", { priority: 1 })) console.log(event.text);
  const metrics: Metrics = engine.metrics;
  const tokenizer = await Tokenizer.load(new Uint8Array(8));
  const tokens: Uint32Array = tokenizer.fimPrompt("a", "b", { order: "spm", files: [{ name: "c", text: "d" }] });
  setLog("info", (level, line) => console.log(level, line));
  setLog();
  console.log(metrics.cacheHitRate, tokenizer.detokenize(tokens), version(), buildInfo(), hasFeature("chat"));
  try {
    engine.close();
  } catch (error) {
    if (error instanceof EmberError && error.code === "CLOSED") throw error;
  }
}

export { conversations, generations, models, rest };
