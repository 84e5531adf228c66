// Options of the package's functions, and what they have in common.
import { Handle, call, made, refused, utf8 } from "./native.mjs";

/** An integer of 32 bits. */
export function number(what, n) {
  if (!Number.isInteger(n) || n < 0 || n > 0xffffffff) throw refused(`${what} must be an integer from 0 to ${0xffffffff}, not ${n}`);
  return n;
}

/** An integer that JavaScript has exactly. */
export function size(what, n) {
  if (!Number.isSafeInteger(n) || n < 0) throw refused(`${what} must be an integer from 0 on, not ${n}`);
  return n;
}

/** The same with a sign. */
function whole32(what, n) {
  if (!Number.isInteger(n) || n < -0x80000000 || n > 0x7fffffff) throw refused(`${what} must be an integer of 32 bits, not ${n}`);
  return n;
}

export const isSet = (value) => value !== undefined && value !== null;

/** Refuses names that are none of an options object's. */
export function only(options, what, names) {
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw refused(`${what} has no option "${name}"; it has ${names.join(", ")}`);
  }
}

/** A number, and whether something is so. */
export function real(what, n) {
  if (typeof n !== "number") throw refused(`${what} must be a number, not ${n}`);
  return n;
}
export function truth(what, is) {
  if (typeof is !== "boolean") throw refused(`${what} must be true or false, not ${is}`);
  return is;
}

// Setters of options, by what they take: functions of the options, the value, and the option's name.
const setter = (type, check) => (name) => {
  const set = call(name, `void *options, ${type} value`);
  return (options, value, what) => set(options, check(what, value));
};
const bool = setter("bool", truth);
const u32 = setter("uint32_t", number);
const u64 = setter("uint64_t", size);
const text = (name, write = (what, value) => value) => {
  const set = call(name, "void *options, uint8_t *text, size_t n");
  return (options, value, what) => {
    const written = write(what, value);
    if (typeof written !== "string") throw refused(`${what} must be a text, not ${value}`);
    set(options, ...utf8(written));
  };
};
const json = (name) => text(name, (_, value) => JSON.stringify(value));
const named = (numbers, name) =>
  setter("int32_t", (what, value) => {
    if (!Object.hasOwn(numbers, value)) throw refused(`${what} must be one of ${Object.keys(numbers).join(", ")}, not ${value}`);
    return numbers[value];
  })(name);
export { bool as boolSetter, named as namedSetter, text as textSetter, u32 as numberSetter };

const setNow = call("ember_chat_options_set_now", "void *options, int64_t seconds");
const chatSetters = {
  tools: json("ember_chat_options_set_tools"),
  variables: json("ember_chat_options_set_variables"),
  template: text("ember_chat_options_set_template"),
  templateName: text("ember_chat_options_set_template_name"),
  thinking: setter("int32_t", (what, thinks) => (truth(what, thinks) ? 1 : 2))("ember_chat_options_set_thinking"),
  now: (options, date) => {
    if (!(date instanceof Date) || Number.isNaN(date.getTime())) throw refused(`now must be a Date, not ${date}`);
    setNow(options, Math.floor(date.getTime() / 1000) - 60 * date.getTimezoneOffset()); // as the local clock shows it
  },
};
const addGenerationPrompt = bool("ember_chat_options_set_add_generation_prompt");
const replySetters = {
  toolChoice: text("ember_chat_options_set_tool_choice"),
  parallelCalls: bool("ember_chat_options_set_parallel_calls"),
  strictTools: bool("ember_chat_options_set_strict_tools"),
};

const POOLING = { auto: -1, none: 0, mean: 1, cls: 2, last: 3, rank: 4 };
const ACTIVATION = { auto: -1, none: 0, sigmoid: 1, softmax: 2 };
const KV = { f16: 0, f32: 1, q8_0: 2, i16: 3, auto: 4 };

const setCpus = call("ember_context_options_set_worker_cpus", "void *options, uint32_t *cpus, size_t n");
export const contextSetters = {
  nCtx: u32("ember_context_options_set_n_ctx"),
  nThreads: u32("ember_context_options_set_n_threads"),
  nSeq: u32("ember_context_options_set_n_seq"),
  nBatch: u32("ember_context_options_set_n_batch"),
  workerCpus: (options, cpus) => {
    const all = Uint32Array.from(cpus, (cpu) => number("workerCpus", cpu));
    setCpus(options, all, all.length);
  },
  kvType: named(KV, "ember_context_options_set_kv_type"),
  kType: named(KV, "ember_context_options_set_k_type"),
  vType: named(KV, "ember_context_options_set_v_type"),
  backend: named({ auto: 0, scalar: 1 }, "ember_context_options_set_backend"),
  kvLimit: u64("ember_context_options_set_kv_limit"),
  keepPrefixes: bool("ember_context_options_set_keep_prefixes"),
  keepAllPositions: bool("ember_context_options_set_keep_all_positions"),
  nSnapshots: u32("ember_context_options_set_n_snapshots"),
  snapshotDistance: u32("ember_context_options_set_snapshot_distance"),
  memoryLimit: u64("ember_context_options_set_memory_limit"),
};

const KEYED = "void *options, uint8_t *key, size_t n";
const metaInteger = call("ember_model_options_set_meta_i64", `${KEYED}, int64_t value`);
const metaFloat = call("ember_model_options_set_meta_f64", `${KEYED}, double value`);
const metaBool = call("ember_model_options_set_meta_bool", `${KEYED}, bool value`);
const metaText = call("ember_model_options_set_meta_string", `${KEYED}, uint8_t *value, size_t m`);
function setMeta(options, key, value) {
  const from = utf8(key);
  if (typeof value === "string") metaText(options, ...from, ...utf8(value));
  else if (typeof value === "boolean") metaBool(options, ...from, value);
  else if (typeof value === "bigint" || Number.isSafeInteger(value)) metaInteger(options, ...from, BigInt(value));
  else if (typeof value === "number") metaFloat(options, ...from, value);
  else if (typeof value?.float === "number") metaFloat(options, ...from, value.float);
  else throw refused(`metadata["${key}"] must be a number, a text, a boolean or { float: number }`);
}
const PACK = { auto: 0, never: 1, always: 2 };
const modelSetters = {
  mmap: bool("ember_model_options_set_use_mmap"),
  isa: text("ember_model_options_set_isa"),
  pack: named(PACK, "ember_model_options_set_pack"),
  lock: bool("ember_model_options_set_lock"),
  checkTensors: bool("ember_model_options_set_check_tensors"),
  memoryLimit: u64("ember_model_options_set_memory_limit"),
  metadata: (options, values) => Object.entries(values).forEach(([key, value]) => setMeta(options, key, value)),
};

const setDraft = call("ember_generate_options_set_draft", "void *options, void *context, uint32_t sequence, uint32_t n");
const setLookup = call("ember_generate_options_set_lookup", "void *options, uint32_t n, uint32_t ngram");
const setShift = call("ember_generate_options_set_shift", "void *options, uint32_t keep, uint32_t drop");
const setConstraint = call("ember_generate_options_set_constraint", "void *options, void *constraint");
const addStop = call("ember_generate_options_add_stop", "void *options, uint8_t *text, size_t n");
const setToken = call("ember_generate_options_set_cancel_token", "void *options, void *token");
const generateSetters = {
  maxTokens: u32("ember_generate_options_set_max_tokens"),
  reusePrefix: bool("ember_generate_options_set_reuse_prefix"),
  ignoreEog: bool("ember_generate_options_set_ignore_eog"),
  logprobs: bool("ember_generate_options_set_logprobs"),
  renderSpecial: bool("ember_generate_options_set_render_special"),
  parseSpecial: bool("ember_generate_options_set_parse_special"),
  includeStop: bool("ember_generate_options_set_include_stop"),
  echo: bool("ember_generate_options_set_echo"),
  topLogprobs: u32("ember_generate_options_set_n_top"),
  sequence: u32("ember_generate_options_set_sequence"),
  timeLimit: u64("ember_generate_options_set_time_limit"),
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
    if (typeof context?.use !== "function") throw refused("draft.context must be a Context");
    context.use((c) => setDraft(options, c, number("draft.sequence", sequence), number("draft.count", count)));
  },
  constraint: (options, constraint) => {
    if (typeof constraint.use !== "function") throw refused("constraint must be a Constraint");
    constraint.use((c) => setConstraint(options, c));
  },
  stop: (options, stop) => [stop].flat().forEach((one) => addStop(options, ...utf8(one))),
};

const embedSetters = {
  pooling: named(POOLING, "ember_embed_options_set_pooling"),
  normalize: bool("ember_embed_options_set_normalize"),
  truncate: bool("ember_embed_options_set_truncate"),
  dimensions: setter("size_t", size)("ember_embed_options_set_dimensions"),
  prompt: text("ember_embed_options_set_prompt"),
};
const classifySetters = {
  activation: named(ACTIVATION, "ember_classify_options_set_activation"),
  truncate: bool("ember_classify_options_set_truncate"),
  template: text("ember_classify_options_set_template"),
  yesNo: bool("ember_classify_options_set_yes_no"),
};

export const CHAT = Object.keys(chatSetters);
export const APPLY = [...CHAT, "addGenerationPrompt"];
export const REPLY = [...CHAT, ...Object.keys(replySetters)];
export const CONTEXT = Object.keys(contextSetters);
export const MODEL = Object.keys(modelSetters);
export const EMBED = Object.keys(embedSetters);
export const CLASSIFY = Object.keys(classifySetters);
export const POOLINGS = Object.keys(POOLING);
export const GENERATION = Object.keys(generateSetters);

/** What makes an options object: calls the setters of the options that are there. */
export function optionsMaker(kind, setters) {
  const create = call(`ember_${kind}_options_new`, "_Out_ void **out");
  return (options) => {
    const handle = new Handle("options", made(create), `ember_${kind}_options_free`);
    try {
      for (const [name, set] of Object.entries(setters)) {
        if (isSet(options[name])) handle.call(set, options[name], name);
      }
    } catch (error) {
      handle.close();
      throw error;
    }
    return handle;
  };
}

/** How a model is loaded, a context is made, a conversation is written, texts are embedded and scored. */
export const modelOptions = optionsMaker("model", modelSetters);
export const contextOptions = optionsMaker("context", contextSetters);
export const chatOptions = optionsMaker("chat", { ...chatSetters, ...replySetters, addGenerationPrompt });
export const embedOptions = optionsMaker("embed", embedSetters);
export const classifyOptions = optionsMaker("classify", classifySetters);

/** How to generate, until the cancel's signal, if there is a cancel. */
const generateMaker = optionsMaker("generate", {
  ...generateSetters,
  priority: setter("int32_t", whole32)("ember_generate_options_set_priority"),
  cancel: (options, cancel) => cancel.handle.call((token) => setToken(options, token)),
});
export const generateOptions = (options, cancel) => generateMaker({ ...options, cancel });

const tokenNew = call("ember_cancel_token_new", "_Out_ void **out");
const tokenCancel = call.void("ember_cancel_token_cancel", "void *token");
const tokenReset = call.void("ember_cancel_token_reset", "void *token");

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

  /** Has one more owner, who closes it too. */
  share() {
    this.handle.share();
    return this;
  }

  close() {
    this.#signal?.removeEventListener("abort", this.#turn);
    this.handle.close();
  }
}
