// Options of the package's functions, and what they have in common.
import { EmberError, Handle, call, made, utf8 } from "./native.mjs";

const chatOptionsNew = call("ember_chat_options_new", "_Out_ void **out");
const chatText = (name) => {
  const set = call(name, "void *options, uint8_t *text, size_t n");
  return (options, text) => set(options, ...utf8(text));
};
const chatJson = (name) => {
  const set = chatText(name);
  return (options, value) => set(options, JSON.stringify(value));
};
const thinking = call("ember_chat_options_set_thinking", "void *options, int32_t thinking");
const chatSetters = {
  tools: chatJson("ember_chat_options_set_tools"),
  variables: chatJson("ember_chat_options_set_variables"),
  template: chatText("ember_chat_options_set_template"),
  templateName: chatText("ember_chat_options_set_template_name"),
  thinking: (options, thinks) => thinking(options, thinks ? 1 : 2),
};
const replySetters = {
  toolChoice: chatText("ember_chat_options_set_tool_choice"),
  parallelCalls: call("ember_chat_options_set_parallel_calls", "void *options, bool parallel"),
  strictTools: call("ember_chat_options_set_strict_tools", "void *options, bool strict"),
};
const setDraft = call("ember_generate_options_set_draft", "void *options, void *context, uint32_t sequence, uint32_t n");
const setLookup = call("ember_generate_options_set_lookup", "void *options, uint32_t n, uint32_t ngram");
const setShift = call("ember_generate_options_set_shift", "void *options, uint32_t keep, uint32_t drop");
const setTimeLimit = call("ember_generate_options_set_time_limit", "void *options, uint64_t milliseconds");
const setPriority = call("ember_generate_options_set_priority", "void *options, int32_t priority");
const setTop = call("ember_generate_options_set_n_top", "void *options, uint32_t n");
const setSequence = call("ember_generate_options_set_sequence", "void *options, uint32_t sequence");
const contextOptionsNew = call("ember_context_options_new", "_Out_ void **out");
export const contextSetters = {
  nCtx: call("ember_context_options_set_n_ctx", "void *options, uint32_t n"),
  nThreads: call("ember_context_options_set_n_threads", "void *options, uint32_t n"),
  nSeq: call("ember_context_options_set_n_seq", "void *options, uint32_t n"),
};
const generateOptionsNew = call("ember_generate_options_new", "_Out_ void **out");
const setConstraint = call("ember_generate_options_set_constraint", "void *options, void *constraint");
const generateSetters = {
  maxTokens: call("ember_generate_options_set_max_tokens", "void *options, uint32_t n"),
  reusePrefix: call("ember_generate_options_set_reuse_prefix", "void *options, bool reuse"),
  ignoreEog: call("ember_generate_options_set_ignore_eog", "void *options, bool ignore"),
  logprobs: call("ember_generate_options_set_logprobs", "void *options, bool logprobs"),
  renderSpecial: call("ember_generate_options_set_render_special", "void *options, bool render"),
  includeStop: call("ember_generate_options_set_include_stop", "void *options, bool include"),
  topLogprobs: (options, n) => setTop(options, number("topLogprobs", n)),
  sequence: (options, n) => setSequence(options, number("sequence", n)),
  timeLimit: (options, n) => setTimeLimit(options, number("timeLimit", n)),
  shift: (options, { keep, drop, ...rest }) => {
    only(rest, "shift", ["keep", "drop"]);
    setShift(options, number("shift.keep", keep), number("shift.drop", drop));
  },
  lookup: (options, { count = 8, ngram = 3, ...rest }) => {
    only(rest, "lookup", ["count", "ngram"]);
    setLookup(options, number("lookup.count", count), number("lookup.ngram", ngram));
  },
  draft: (options, { context, sequence = 0, count = 4, ...rest }) => {
    only(rest, "draft", ["context", "sequence", "count"]);
    if (typeof context?.use !== "function") throw new EmberError("draft.context must be a Context", "INVALID_ARGUMENT");
    context.use((c) => setDraft(options, c, number("draft.sequence", sequence), number("draft.count", count)));
  },
  constraint: (options, constraint) => constraint.use((c) => setConstraint(options, c)),
};
const addStop = call("ember_generate_options_add_stop", "void *options, uint8_t *text, size_t n");
const setToken = call("ember_generate_options_set_cancel_token", "void *options, void *token");
const samplerNew = call("ember_sampler_new", "uint64_t seed, _Out_ void **out");
const addPenalties = call("ember_sampler_add_penalties", "void *sampler, uint32_t n, float repeat, float frequency, float presence");
const addXtc = call("ember_sampler_add_xtc", "void *sampler, float probability, float threshold");
const addDynamicTemperature = call("ember_sampler_add_dynamic_temperature", "void *sampler, float t, float range, float exponent");
const addMirostat = call("ember_sampler_add_mirostat", "void *sampler, float tau, float eta");
const addAdaptiveP = call("ember_sampler_add_adaptive_p", "void *sampler, float target, float decay");
// In the order in which they are applied.
const samplerStages = [
  ["penalties", (sampler, { last = 64, repeat = 1, frequency = 0, presence = 0, ...rest }) => {
    only(rest, "penalties", ["last", "repeat", "frequency", "presence"]);
    addPenalties(sampler, number("penalties.last", last), repeat, frequency, presence);
  }],
  ["topNSigma", call("ember_sampler_add_top_n_sigma", "void *sampler, float n")],
  ["topK", call("ember_sampler_add_top_k", "void *sampler, uint32_t k")],
  ["typicalP", call("ember_sampler_add_typical_p", "void *sampler, float p")],
  ["topP", call("ember_sampler_add_top_p", "void *sampler, float p")],
  ["minP", call("ember_sampler_add_min_p", "void *sampler, float p")],
  ["xtc", (sampler, { probability, threshold, ...rest }) => {
    only(rest, "xtc", ["probability", "threshold"]);
    addXtc(sampler, probability, threshold);
  }],
  ["temperature", call("ember_sampler_add_temperature", "void *sampler, float t")],
  ["dynamicTemperature", (sampler, { temperature, range, exponent = 1, ...rest }) => {
    only(rest, "dynamicTemperature", ["temperature", "range", "exponent"]);
    addDynamicTemperature(sampler, temperature, range, exponent);
  }],
  ["mirostat", (sampler, { tau = 5, eta = 0.1, ...rest }) => {
    only(rest, "mirostat", ["tau", "eta"]);
    addMirostat(sampler, tau, eta);
  }],
  ["adaptiveP", (sampler, { target, decay = 0.9, ...rest }) => {
    only(rest, "adaptiveP", ["target", "decay"]);
    addAdaptiveP(sampler, target, decay);
  }],
];
const POOLING = { auto: -1, none: 0, mean: 1, cls: 2, last: 3, rank: 4 };
const ACTIVATION = { auto: -1, none: 0, sigmoid: 1, softmax: 2 };
const named = (what, numbers, set) => (options, name) => {
  if (!Object.hasOwn(numbers, name)) throw new EmberError(`${what} must be one of ${Object.keys(numbers).join(", ")}, not ${name}`, "INVALID_ARGUMENT");
  set(options, numbers[name]);
};
const embedOptionsNew = call("ember_embed_options_new", "_Out_ void **out");
const setDimensions = call("ember_embed_options_set_dimensions", "void *options, size_t dimensions");
const setPrompt = call("ember_embed_options_set_prompt", "void *options, uint8_t *name, size_t n");
const embedSetters = {
  pooling: named("pooling", POOLING, call("ember_embed_options_set_pooling", "void *options, int32_t pooling")),
  normalize: call("ember_embed_options_set_normalize", "void *options, bool normalize"),
  truncate: call("ember_embed_options_set_truncate", "void *options, bool truncate"),
  dimensions: (options, n) => {
    if (!Number.isSafeInteger(n) || n < 0) throw new EmberError(`dimensions must be a whole number from 0 on, not ${n}`, "INVALID_ARGUMENT");
    setDimensions(options, n);
  },
  prompt: (options, name) => setPrompt(options, ...utf8(name)),
};
const classifyOptionsNew = call("ember_classify_options_new", "_Out_ void **out");
const setTemplate = call("ember_classify_options_set_template", "void *options, uint8_t *text, size_t n");
const classifySetters = {
  activation: named("activation", ACTIVATION, call("ember_classify_options_set_activation", "void *options, int32_t activation")),
  truncate: call("ember_classify_options_set_truncate", "void *options, bool truncate"),
  template: (options, text) => setTemplate(options, ...utf8(text)),
  yesNo: call("ember_classify_options_set_yes_no", "void *options, bool yes_no"),
};
const tokenNew = call("ember_cancel_token_new", "_Out_ void **out");
const tokenCancel = call.void("ember_cancel_token_cancel", "void *token");
const tokenReset = call.void("ember_cancel_token_reset", "void *token");
const SEED_RANDOM = 0xffffffffffffffffn;

/** A whole number of 32 bits. */
export function number(what, n) {
  if (!Number.isInteger(n) || n < 0 || n > 0xffffffff) {
    throw new EmberError(`${what} must be a whole number from 0 to ${0xffffffff}, not ${n}`, "INVALID_ARGUMENT");
  }
  return n;
}

export const CHAT = Object.keys(chatSetters);
export const REPLY = [...CHAT, ...Object.keys(replySetters)];
export const GENERATE = [...Object.keys(generateSetters), ...samplerStages.map(([name]) => name), "seed", "stop"];

export const EMBED = Object.keys(embedSetters);
export const CLASSIFY = Object.keys(classifySetters);
export const POOLINGS = Object.keys(POOLING);

export const isSet = (value) => value !== undefined && value !== null;

/** Refuses names that are none of an options object's. */
export function only(options, what, names) {
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw new EmberError(`${what} has no option "${name}"; it has ${names.join(", ")}`, "INVALID_ARGUMENT");
  }
}

/** Calls the setters of the options that are there, if there are any. */
export function optionsHandle(create, free, options, setters) {
  const handle = new Handle("options", made(create), free);
  try {
    for (const [name, set] of Object.entries(setters)) {
      if (isSet(options[name])) handle.use((p) => set(p, options[name]));
    }
  } catch (error) {
    handle.close();
    throw error;
  }
  return handle;
}

/** How a context is made. */
export const contextOptions = (options) => optionsHandle(contextOptionsNew, "ember_context_options_free", options, contextSetters);

/** How a conversation is written. */
export const chatOptions = (options) =>
  optionsHandle(chatOptionsNew, "ember_chat_options_free", options, { ...chatSetters, ...replySetters });

/** How to embed. */
export const embedOptions = (options) => optionsHandle(embedOptionsNew, "ember_embed_options_free", options, embedSetters);

/** How to score texts. */
export const classifyOptions = (options) => optionsHandle(classifyOptionsNew, "ember_classify_options_free", options, classifySetters);

/** How to generate, until the cancel's signal, if there is a cancel. */
export function generateOptions(options, cancel) {
  if (isSet(options.constraint) && typeof options.constraint.use !== "function") {
    throw new EmberError("constraint must be a Constraint", "INVALID_ARGUMENT");
  }
  const how = optionsHandle(generateOptionsNew, "ember_generate_options_free", options, generateSetters);
  try {
    for (const text of [options.stop ?? []].flat()) how.use((o) => addStop(o, ...utf8(text)));
    if (isSet(options.priority)) how.use((o) => setPriority(o, options.priority));
    if (cancel !== undefined) how.use((o) => cancel.handle.use((t) => setToken(o, t)));
  } catch (error) {
    how.close();
    throw error;
  }
  return how;
}

/** The sampler that options ask for, or none, which is greedy. */
export function samplerOf(options) {
  const stages = samplerStages.filter(([name]) => isSet(options[name]));
  if (stages.length === 0 && !isSet(options.seed)) return undefined;
  const seed = isSet(options.seed) ? BigInt(options.seed) : SEED_RANDOM;
  if (isSet(options.seed) && (seed < 0n || seed >= SEED_RANDOM)) throw new EmberError(`seed must be 0 to 2^64 - 2, not ${seed}`, "INVALID_ARGUMENT");
  const sampler = new Handle("sampler", made(samplerNew, seed), "ember_sampler_free");
  try {
    for (const [name, add] of stages) sampler.use((s) => add(s, options[name]));
  } catch (error) {
    sampler.close();
    throw error;
  }
  return sampler;
}

/** Asks with a buffer and, if that was too small, again. */
export function filled(room, make, fill) {
  const needed = [0];
  let buffer = make(room);
  try {
    fill(buffer, needed);
  } catch (error) {
    if (error.code !== "BUFFER_TOO_SMALL") throw error;
    buffer = make(Number(needed[0]));
    fill(buffer, needed);
  }
  return buffer.subarray(0, Number(needed[0]));
}

/** As filled, for a function that gives a promise; an element takes `size` of the buffer's. */
export async function filledAsync(room, make, fill, size = 1) {
  const needed = [0];
  let buffer = make(room);
  try {
    await fill(buffer, needed);
  } catch (error) {
    if (error.code !== "BUFFER_TOO_SMALL") throw error;
    buffer = make(Number(needed[0]));
    await fill(buffer, needed);
  }
  return buffer.subarray(0, size * Number(needed[0]));
}

/** Texts for a function that takes their pointers, their lengths and their number. */
export function textArrays(texts) {
  const bytes = texts.map((text) => Buffer.from(text));
  return [bytes, BigUint64Array.from(bytes, (one) => BigInt(one.length)), bytes.length];
}

/** Numbers that come one row after the other. */
export const rowsOf = (numbers, width) =>
  Array.from({ length: width > 0 ? numbers.length / width : 0 }, (_, i) => numbers.subarray(i * width, (i + 1) * width));

/** A token of the library, which an AbortSignal turns. */
export class Cancel {
  handle = new Handle("token", made(tokenNew), "ember_cancel_token_free");
  #signal;
  #turn = () => this.handle.use(tokenCancel);

  constructor(signal) {
    this.follow(signal);
  }

  /** Follows another signal, or none, from now on. */
  follow(signal) {
    this.#signal?.removeEventListener("abort", this.#turn);
    this.#signal = signal;
    this.handle.use(tokenReset);
    signal?.addEventListener("abort", this.#turn, { once: true });
  }

  /** What is thrown in place of an error that the signal led to. */
  reason(error) {
    return this.#signal?.aborted && error.code === "CANCELLED" ? this.#signal.reason : error;
  }

  throwIfAborted() {
    this.#signal?.throwIfAborted();
  }

  close() {
    this.#signal?.removeEventListener("abort", this.#turn);
    this.handle.close();
  }
}
