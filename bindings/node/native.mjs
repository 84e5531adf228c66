// The functions of ember.h that the package uses, through koffi.
import { promisify } from "node:util";
import koffi from "koffi";
import { libraryPath } from "./find.mjs";

// Calls of other threads get a stack of koffi's making; its own choice, 128 KB, is less than threads have as a rule.
koffi.config({ async_stack_size: 2 << 20, resident_async_pools: 2 });

const path = libraryPath();
const library = koffi.load(path);

// Koffi unloads its libraries when the process ends. The threads of contexts that nobody closed are still in this one then, and would run
// code that is gone. So it has another reference, which nobody gives back.
if (process.platform !== "win32") {
  const RTLD_NOW = 2;
  if (!koffi.load(null).func("void *dlopen(const char *path, int flags)")(path, RTLD_NOW)) throw new Error(`cannot keep ${path} loaded`);
}

// As in ember.h. Koffi has no text of a given length in a struct, so text stays a pointer.
koffi.struct("ember_event", {
  struct_size: "size_t",
  text: "void *",
  text_len: "size_t",
  bytes: "void *",
  n_bytes: "size_t",
  tops: "void *",
  n_tops: "size_t",
  kind: "int32_t",
  token: "uint32_t",
  logprob: "float",
  finish_reason: "int32_t",
});

koffi.struct("ember_token_logprob", { token: "uint32_t", logprob: "float" });
koffi.struct("ember_chat_event", {
  struct_size: "size_t",
  text: "void *",
  text_len: "size_t",
  name: "void *",
  name_len: "size_t",
  id: "void *",
  id_len: "size_t",
  reason: "void *",
  reason_len: "size_t",
  index: "uint32_t",
  kind: "int32_t",
  finish_reason: "int32_t",
});
koffi.struct("ember_generate_result", {
  struct_size: "size_t",
  prefill_ns: "uint64_t",
  decode_ns: "uint64_t",
  n_prompt: "uint32_t",
  n_generated: "uint32_t",
  finish_reason: "int32_t",
  n_reused: "uint32_t",
  n_drafted: "uint32_t",
  n_accepted: "uint32_t",
  n_shifted: "uint64_t",
  n_forced: "uint32_t",
  progress: "int32_t",
  sum_logprob: "double",
  mean_logprob: "double",
});
koffi.struct("ember_model_info", {
  struct_size: "size_t",
  n_params: "uint64_t",
  file_size: "uint64_t",
  n_vocab: "uint32_t",
  n_ctx_train: "uint32_t",
  n_embd: "uint32_t",
  n_layer: "uint32_t",
  n_head: "uint32_t",
  n_head_kv: "uint32_t",
  head_dim: "uint32_t",
  n_ff: "uint32_t",
  bos_token: "uint32_t",
  eos_token: "uint32_t",
  has_tokenizer: "uint32_t",
  add_bos: "uint32_t",
  causal: "uint32_t",
  pooling: "int32_t",
  n_expert: "uint32_t",
  n_expert_used: "uint32_t",
  eot_token: "uint32_t",
  unk_token: "uint32_t",
  pad_token: "uint32_t",
  has_chat_template: "uint32_t",
  n_embd_out: "uint32_t",
  n_prompts: "uint32_t",
});
koffi.struct("ember_tokenizer_info", {
  struct_size: "size_t",
  n_vocab: "uint32_t",
  bos_token: "uint32_t",
  eos_token: "uint32_t",
  eot_token: "uint32_t",
  unk_token: "uint32_t",
  pad_token: "uint32_t",
  add_bos: "uint32_t",
  add_eos: "uint32_t",
  has_chat_template: "uint32_t",
  fim_prefix_token: "uint32_t",
  fim_suffix_token: "uint32_t",
  fim_middle_token: "uint32_t",
  fim_repository_token: "uint32_t",
  fim_file_token: "uint32_t",
});
koffi.struct("ember_chat_format", {
  struct_size: "size_t",
  name: "void *",
  name_len: "size_t",
  thinking_open: "void *",
  thinking_open_len: "size_t",
  thinking_close: "void *",
  thinking_close_len: "size_t",
  thinking_variable: "void *",
  thinking_variable_len: "size_t",
  thinking_on: "void *",
  thinking_on_len: "size_t",
  thinking_off: "void *",
  thinking_off_len: "size_t",
});
koffi.struct("ember_memory", {
  struct_size: "size_t",
  file: "uint64_t",
  weights: "uint64_t",
  kv: "uint64_t",
  workspace: "uint64_t",
});
koffi.struct("ember_engine_metrics", {
  struct_size: "size_t",
  n_submitted: "uint64_t",
  n_refused: "uint64_t",
  n_finished: "uint64_t",
  n_cancelled: "uint64_t",
  n_failed: "uint64_t",
  n_preempted: "uint64_t",
  n_prompt: "uint64_t",
  n_reused: "uint64_t",
  n_prefilled: "uint64_t",
  n_generated: "uint64_t",
  n_steps: "uint64_t",
  busy_ns: "uint64_t",
  tokens_per_s: "double",
  cache_hit_rate: "double",
  n_queued: "uint32_t",
  n_active: "uint32_t",
  n_pages: "uint32_t",
  n_free_pages: "uint32_t",
});
koffi.struct("ember_context_info", {
  struct_size: "size_t",
  n_ctx: "uint32_t",
  n_seq: "uint32_t",
  n_batch: "uint32_t",
  n_threads: "uint32_t",
  page_len: "uint32_t",
  n_pages: "uint32_t",
  n_free_pages: "uint32_t",
  backend: "int32_t",
});
koffi.struct("ember_timings", {
  struct_size: "size_t",
  load_ns: "uint64_t",
  n_prefill: "uint64_t",
  prefill_ns: "uint64_t",
  n_decode: "uint64_t",
  decode_ns: "uint64_t",
  n_embed: "uint64_t",
  embed_ns: "uint64_t",
  n_replay: "uint64_t",
  replay_ns: "uint64_t",
});
koffi.struct("ember_score_result", {
  struct_size: "size_t",
  logprob: "double",
  n_scored: "uint32_t",
  n_prompt: "uint32_t",
  n_reused: "uint32_t",
  is_greedy: "uint32_t",
});
koffi.struct("ember_conversation_usage", {
  struct_size: "size_t",
  prefill_ns: "uint64_t",
  decode_ns: "uint64_t",
  n_prompt: "uint32_t",
  n_reused: "uint32_t",
  n_generated: "uint32_t",
  n_thinking: "uint32_t",
  n_dropped_turns: "uint32_t",
  n_forgotten: "uint32_t",
  finish_reason: "int32_t",
  reserved: "int32_t",
});

// Functions of the caller's. Koffi runs them on the thread of JavaScript, and the thread of the library that calls one waits for that.
koffi.proto("void ember_log_callback(int32_t level, const uint8_t *text, size_t len, void *user_data)");
koffi.proto("void ember_release_callback(void *user_data)");
koffi.proto("int32_t ember_progress_callback(float done, void *user_data)");
koffi.proto("int32_t ember_candidates_callback(const uint32_t *tokens, float *logits, size_t n, void *user_data)");
koffi.proto("int32_t ember_write_callback(const uint8_t *data, size_t len, void *user_data)");
koffi.proto("int64_t ember_read_callback(uint8_t *buffer, size_t capacity, void *user_data)");
koffi.proto("uint32_t ember_full_callback(uint32_t n_tokens, uint32_t n_ctx, uint32_t n_turns, void *user_data)");

/** A function that C may call, until it is closed. What it throws is kept in `error`, and C gets `failed`. */
export class Callback {
  error;

  constructor(type, failed, f) {
    const guarded = (...values) => {
      try {
        return f(...values);
      } catch (error) {
        this.error ??= error;
        return failed;
      }
    };
    this.pointer = koffi.register(guarded, koffi.pointer(type));
  }

  /** Throws what the function threw, once. */
  check() {
    const { error } = this;
    this.error = undefined;
    if (error !== undefined) throw error;
  }

  close() {
    if (this.pointer !== undefined) koffi.unregister(this.pointer);
    this.pointer = undefined;
  }
}

/** `n` numbers at an address, as a copy; and copied there. */
export const numbersAt = (address, type, n) => koffi.decode(address, type, n);
export const putNumbers = (address, type, numbers) => koffi.encode(address, type, numbers, numbers.length);

const errorMessage = library.func("const char *ember_error_message(void *error)");
const errorFree = library.func("void ember_error_free(void *error)");

const STATUS = [
  "OK", "INVALID_ARGUMENT", "IO", "FORMAT", "UNSUPPORTED", "NOMEM", "CONTEXT_FULL", "BUSY", "UTF8", "BUFFER_TOO_SMALL", "NOT_FOUND",
  "INTERNAL", "CANCELLED", "QUEUE_FULL",
];

/** What the library refuses, in its words. */
export class EmberError extends Error {
  name = "EmberError";

  constructor(message, code) {
    super(message);
    this.code = code; // "IO", "CONTEXT_FULL", …: the name of the status in ember.h
  }
}

/** What the package refuses before the library sees it. */
export const refused = (message) => new EmberError(message, "INVALID_ARGUMENT");

// Makes an error of a call that has ended with a status and an ember_error.
function check(status, error) {
  if (status === 0) return;
  const message = errorMessage(error[0]);
  errorFree(error[0]);
  throw new EmberError(message, STATUS[status] ?? String(status));
}

/** A function that returns an ember_status and has an ember_error ** at its end. */
export function call(name, parameters) {
  const raw = library.func(`int32_t ${name}(${parameters}, _Out_ void **err)`);
  return (...values) => {
    const error = [null];
    check(raw(...values, error), error);
  };
}

/** A function that returns nothing. */
call.void = (name, parameters) => library.func(`void ${name}(${parameters})`);

/** A function that returns a pointer, a text or a number. */
call.returning = (type, name, parameters = "") => library.func(`${type} ${name}(${parameters})`);

/** As call, on a thread of koffi's, for a promise: the event loop goes on meanwhile. */
export function callAsync(name, parameters) {
  const raw = promisify(library.func(`int32_t ${name}(${parameters}, _Out_ void **err)`).async);
  return async (...values) => {
    const error = [null];
    check(await raw(...values, error), error);
  };
}

/** As call.void, on a thread of koffi's; nobody waits for its end. */
callAsync.void = (name, parameters) => {
  const raw = library.func(`void ${name}(${parameters})`).async;
  return (...values) => raw(...values, () => {});
};

/** What a function writes to its last argument but the error: a pointer, a number, whether something is so. */
export function made(f, ...values) {
  const out = [null];
  const result = f(...values, out);
  return result instanceof Promise ? result.then(() => out[0]) : out[0];
}

/** What a function writes to a struct, its last argument but the error. */
export function read(struct, f, ...values) {
  const raw = newStruct(struct);
  f(...values, raw);
  return raw;
}

/** Asks with an array of `capacity` elements and, if that was too small, again. An element takes `size` of the array's. */
export function filled(Type, capacity, fill, size = 1) {
  const needed = [0];
  let buffer = new Type(size * capacity);
  const whole = () => buffer.subarray(0, size * Number(needed[0]));
  const again = (error) => {
    if (error.code !== "BUFFER_TOO_SMALL") throw error;
    buffer = new Type(size * Number(needed[0]));
    return fill(buffer, buffer.length / size, needed);
  };
  let result;
  try {
    result = fill(buffer, capacity, needed);
  } catch (error) {
    result = again(error);
  }
  return result instanceof Promise ? result.catch(again).then(whole) : whole();
}

/** Bytes, tokens or a text that a function writes after these values, whose last arguments but the error are buffer, capacity and length. */
const filledBy = (Type) => (f, capacity, ...values) =>
  filled(Type, capacity, (buffer, n, needed) => f(...values, buffer, n, needed));
export const bytesOf = filledBy(Uint8Array);
export const tokensOf = filledBy(Uint32Array);
export const textFrom = (...values) => Buffer.from(bytesOf(...values)).toString();

/** Text for a function that takes a pointer and a length in bytes. */
export function utf8(text) {
  if (typeof text !== "string") throw refused(`a text is needed, not ${text}`);
  const bytes = Buffer.from(text);
  return [bytes, bytes.length];
}

/** Texts for a function that takes their pointers, their lengths and their number. */
export function textArrays(texts) {
  if (!Array.isArray(texts)) throw refused(`an array of texts is needed, not ${texts}`);
  const bytes = texts.map((text) => utf8(text)[0]);
  return [bytes, BigUint64Array.from(bytes, (one) => BigInt(one.length)), bytes.length];
}

const forgotten = new FinalizationRegistry(({ free, pointer }) => free(pointer));

/** What belongs to the library, until its last owner closes it, or it is forgotten. It is not freed while a call uses it. */
export class Handle {
  #free;
  #what;
  #pointer;
  #after;
  #users = 0;
  #owners = 1;
  #closed = false;

  /** `free` is the name of the function that frees it, or one that does; `after` is called when it is freed. */
  constructor(what, pointer, free, after) {
    this.#free = typeof free === "string" ? library.func(`void ${free}(void *)`) : free;
    this.#what = what;
    this.#pointer = pointer;
    this.#after = after;
    forgotten.register(this, { free: this.#free, pointer }, this);
  }

  /** Calls f with the pointer; f may give a promise. */
  use(f) {
    if (this.#closed) throw new EmberError(`the ${this.#what} is closed`, "CLOSED");
    this.#users++;
    let result;
    try {
      result = f(this.#pointer);
    } finally {
      if (!(result instanceof Promise)) this.#done();
    }
    return result instanceof Promise ? result.finally(() => this.#done()) : result;
  }

  /** Calls f with the pointer and these values. */
  call(f, ...values) {
    return this.use((p) => f(p, ...values));
  }

  /** As the functions of these names, for a function whose first argument is the pointer. */
  made(f, ...values) {
    return this.use((p) => made(f, p, ...values));
  }

  read(struct, f, ...values) {
    return this.use((p) => read(struct, f, p, ...values));
  }

  bytes(f, capacity, ...values) {
    return this.use((p) => bytesOf(f, capacity, p, ...values));
  }

  tokens(f, capacity, ...values) {
    return this.use((p) => tokensOf(f, capacity, p, ...values));
  }

  text(f, capacity, ...values) {
    return this.use((p) => textFrom(f, capacity, p, ...values));
  }

  #done() {
    if (--this.#users === 0 && this.#closed) this.#end();
  }

  #end() {
    forgotten.unregister(this);
    this.#free(this.#pointer);
    this.#after?.();
  }

  get closed() {
    return this.#closed;
  }

  /** Has one more owner, who closes it too. */
  share() {
    this.#owners++;
    return this;
  }

  close() {
    if (this.#closed || --this.#owners > 0) return;
    this.#closed = true;
    if (this.#users === 0) this.#end();
  }
}

/** Calls f with the pointers of handles, none of which is freed meanwhile; where there is none, with null. */
export function useAll(handles, f, ...pointers) {
  if (handles.length === 0) return f(...pointers);
  const [first, ...rest] = handles;
  return first === undefined ? useAll(rest, f, ...pointers, null) : first.use((p) => useAll(rest, f, ...pointers, p));
}

/** What is closed together, the latest first. */
export class Closing {
  #all = [];

  keep(one) {
    if (one !== undefined) this.#all.unshift(one);
    return one;
  }

  close() {
    for (const one of this.#all) one.close();
    this.#all = [];
  }
}

/** The handle of an object of the package's. */
export const HANDLE = Symbol("handle");

/** An object that has one. */
export class Owner {
  constructor(handle) {
    Object.defineProperty(this, HANDLE, { value: handle });
  }

  use(f) {
    return this[HANDLE].use(f);
  }

  /** Frees it, once what is using it has ended. What others need of it stays. */
  close() {
    this[HANDLE].close();
  }

  [Symbol.dispose]() {
    this.close();
  }
}

/** `name` must be given as an object of this class. */
export function needs(Class, name, object) {
  if (!(object instanceof Class)) throw refused(`${name} must be a ${Class.name}`);
  return object;
}

/** The text of an event, which is the library's memory; that of another field by its name. */
export function textOf(event, field = "text") {
  const length = Number(event[`${field}_len`]);
  return length > 0 ? koffi.decode.string(event[field], length) : "";
}

/** A struct for the library to write to. */
export const newStruct = (name) => ({ struct_size: koffi.sizeof(name) });

export const FINISH = ["max_tokens", "eog", "stopped", "context_full", "stop_string", "cancelled", "time_limit", "failed"];

export const PROGRESS = ["none", "waiting", "unfinished", "complete"];

const EVENT_KIND = ["echo", "token", "end"];

/** A copy of an ember_event, or undefined where there is none. */
export function generatedOf(raw) {
  const kind = EVENT_KIND[raw.kind];
  if (kind === undefined) return undefined; // EMBER_EVENT_NONE
  const event = { kind, text: textOf(raw), logprob: raw.logprob, finishReason: FINISH[raw.finish_reason] };
  if (kind === "token") event.token = raw.token;
  if (Number(raw.n_tops) > 0) event.top = koffi.decode(raw.tops, "ember_token_logprob", Number(raw.n_tops));
  return event;
}

/** What a function that writes an ember_generate_result says. */
export function usageOf(fill) {
  const usage = newStruct("ember_generate_result");
  fill(usage);
  return {
    promptTokens: usage.n_prompt,
    reusedTokens: usage.n_reused,
    generatedTokens: usage.n_generated,
    draftedTokens: usage.n_drafted,
    acceptedTokens: usage.n_accepted,
    shiftedTokens: Number(usage.n_shifted),
    forcedTokens: usage.n_forced,
    prefillMs: Number(usage.prefill_ns) / 1e6,
    decodeMs: Number(usage.decode_ns) / 1e6,
    sumLogprob: usage.sum_logprob,
    meanLogprob: usage.mean_logprob,
    finishReason: FINISH[usage.finish_reason],
    progress: PROGRESS[usage.progress],
  };
}

export const CHAT_KIND = ["none", "text", "thinking", "call_begin", "call_arguments", "call", "call_broken", "end"];

/** A copy of an ember_chat_event. */
export function eventOf(raw) {
  const event = { kind: CHAT_KIND[raw.kind], text: textOf(raw) };
  if (event.kind === "end") return { ...event, finishReason: FINISH[raw.finish_reason] };
  if (!event.kind.startsWith("call")) return event;
  Object.assign(event, { index: raw.index, id: textOf(raw, "id"), name: textOf(raw, "name") });
  if (event.kind === "call") event.arguments = JSON.parse(event.text);
  if (event.kind === "call_broken") event.reason = textOf(raw, "reason");
  return event;
}

/** What an ember_context_info says. */
export const contextInfoOf = (raw) => ({
  nCtx: raw.n_ctx,
  nSeq: raw.n_seq,
  nBatch: raw.n_batch,
  nThreads: raw.n_threads,
  pageLength: raw.page_len,
  pages: raw.n_pages,
  freePages: raw.n_free_pages,
  backend: ["auto", "scalar"][raw.backend],
});

/** What an ember_memory says. */
export const memoryOf = (raw) => Object.fromEntries(["file", "weights", "kv", "workspace"].map((name) => [name, Number(raw[name])]));

/** Numbers that come one row after the other. */
export const rowsOf = (numbers, width) =>
  Array.from({ length: width > 0 ? numbers.length / width : 0 }, (_, i) => numbers.subarray(i * width, (i + 1) * width));

export const NO_TOKEN = 0xffffffff;
export const tokenOf = (id) => (id === NO_TOKEN ? undefined : id);
