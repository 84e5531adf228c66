// Ember for Node: language models on the CPU, inside the process, without blocking the event loop.
import { EmberError, Handle, call, callAsync, made, newEvent, textOf, utf8 } from "./native.mjs";

export { EmberError };

const modelLoad = callAsync("ember_model_load", "uint8_t *path, size_t n, void *options, _Out_ void **out");
const modelRetain = call.pointer("ember_model_retain", "void *model");
const modelOptionsNew = call("ember_model_options_new", "_Out_ void **out");
const modelOptionsToken = call("ember_model_options_set_cancel_token", "void *options, void *token");
const applyTemplate = call(
  "ember_chat_apply_template",
  "void *model, uint8_t *messages, size_t n, void *options, uint8_t *buffer, size_t capacity, _Out_ size_t *needed",
);
const chatOptionsNew = call("ember_chat_options_new", "_Out_ void **out");
const chatSetters = Object.fromEntries(
  ["tools", "variables", "template"].map((name) => [name, call(`ember_chat_options_set_${name}`, "void *options, uint8_t *text, size_t n")]),
);
const tokenize = call(
  "ember_model_tokenize",
  "void *model, uint8_t *text, size_t n, bool add_special, bool parse_special, uint32_t *tokens, size_t capacity, _Out_ size_t *needed",
);
const contextOptionsNew = call("ember_context_options_new", "_Out_ void **out");
const contextSetters = {
  nCtx: call("ember_context_options_set_n_ctx", "void *options, uint32_t n"),
  nThreads: call("ember_context_options_set_n_threads", "void *options, uint32_t n"),
};
const contextNew = call("ember_context_new", "void *model, void *options, _Out_ void **out");
const rewind = call("ember_context_rewind", "void *context, uint32_t sequence, uint32_t n_past");
const generateOptionsNew = call("ember_generate_options_new", "_Out_ void **out");
const generateSetters = {
  maxTokens: call("ember_generate_options_set_max_tokens", "void *options, uint32_t n"),
  reusePrefix: call("ember_generate_options_set_reuse_prefix", "void *options, bool reuse"),
  ignoreEog: call("ember_generate_options_set_ignore_eog", "void *options, bool ignore"),
  logprobs: call("ember_generate_options_set_logprobs", "void *options, bool logprobs"),
};
const addStop = call("ember_generate_options_add_stop", "void *options, uint8_t *text, size_t n");
const setToken = call("ember_generate_options_set_cancel_token", "void *options, void *token");
const samplerNew = call("ember_sampler_new", "uint64_t seed, _Out_ void **out");
const samplerStages = [
  ["topK", call("ember_sampler_add_top_k", "void *sampler, uint32_t k")],
  ["topP", call("ember_sampler_add_top_p", "void *sampler, float p")],
  ["minP", call("ember_sampler_add_min_p", "void *sampler, float p")],
  ["temperature", call("ember_sampler_add_temperature", "void *sampler, float t")],
];
const tokenNew = call("ember_cancel_token_new", "_Out_ void **out");
const tokenCancel = call.void("ember_cancel_token_cancel", "void *token");
const generatorNew = call(
  "ember_generator_new_tokens",
  "void *context, uint32_t *tokens, size_t n, void *options, void *sampler, _Out_ void **out",
);
const generatorNext = callAsync("ember_generator_next", "void *generator, _Inout_ ember_event *event");

const KIND = ["echo", "token", "end"];
const FINISH = ["max_tokens", "eog", "stopped", "context_full", "stop_string", "cancelled", "time_limit", "failed"];
const SEED_RANDOM = 0xffffffffffffffffn;

const isSet = (value) => value !== undefined && value !== null;

/** Refuses names that are none of an options object's. */
function only(options, what, names) {
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw new EmberError(`${what} has no option "${name}"; it has ${names.join(", ")}`, "INVALID_ARGUMENT");
  }
}

/** Calls the setters of the options that are there, if there are any. */
function optionsHandle(what, create, free, options, setters) {
  const handle = new Handle(what, made(create), free);
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

/** A model: immutable, for any number of contexts, which keep it. */
export class Model {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  /** Loads a GGUF file or a folder of Hugging Face. `signal` (an AbortSignal) ends the loading. */
  static async load(path, { signal, ...rest } = {}) {
    only(rest, "Model.load", ["signal"]);
    signal?.throwIfAborted();
    const token = new Cancel(signal);
    const options = optionsHandle("options", modelOptionsNew, "ember_model_options_free", {}, {});
    try {
      token.handle.use((t) => options.use((o) => modelOptionsToken(o, t)));
      return new Model(new Handle("model", await options.use((o) => made(modelLoad, ...utf8(path), o)), "ember_model_release"));
    } catch (error) {
      throw token.reason(error);
    } finally {
      options.close();
      token.close();
    }
  }

  /** The text of a conversation as the model was trained on it. */
  applyChatTemplate(messages, { tools, variables, template, ...rest } = {}) {
    only(rest, "applyChatTemplate", ["tools", "variables", "template"]);
    const json = (set) => (options, value) => set(options, ...utf8(JSON.stringify(value)));
    const setters = {
      tools: json(chatSetters.tools),
      variables: json(chatSetters.variables),
      template: (options, text) => chatSetters.template(options, ...utf8(text)),
    };
    const options = optionsHandle("options", chatOptionsNew, "ember_chat_options_free", { tools, variables, template }, setters);
    try {
      const text = utf8(JSON.stringify(messages));
      const fill = (buffer, needed) =>
        this.use((m) => options.use((o) => applyTemplate(m, ...text, o, buffer, buffer.length, needed)));
      return Buffer.from(filled(2 * text[1] + 256, (n) => new Uint8Array(n), fill)).toString();
    } finally {
      options.close();
    }
  }

  /** The tokens of a text, a Uint32Array. */
  tokenize(text, { addSpecial = true, parseSpecial = false } = {}) {
    const bytes = utf8(text);
    const fill = (buffer, needed) =>
      this.use((m) => tokenize(m, ...bytes, addSpecial, parseSpecial, buffer, buffer.length, needed));
    return filled(bytes[1] + 8, (n) => new Uint32Array(n), fill);
  }

  /** A context: the text that is worked on. `nCtx`: its positions; `nThreads`. */
  context(options = {}) {
    only(options, "context", ["nCtx", "nThreads"]);
    const handle = optionsHandle("options", contextOptionsNew, "ember_context_options_free", options, contextSetters);
    try {
      const pointer = this.use((m) => handle.use((o) => made(contextNew, m, o)));
      const model = new Model(new Handle("model", this.use(modelRetain), "ember_model_release"));
      return new Context(model, new Handle("context", pointer, "ember_context_free"));
    } finally {
      handle.close();
    }
  }

  use(f) {
    return this.#handle.use(f);
  }

  /** Gives the model back; contexts over it go on working. */
  close() {
    this.#handle.close();
  }
}

/** Asks with a buffer and, if that was too small, again. */
function filled(room, make, fill) {
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

/** An AbortSignal as a token of the library. */
class Cancel {
  handle = new Handle("token", made(tokenNew), "ember_cancel_token_free");
  #signal;
  #turn = () => this.handle.use(tokenCancel);

  constructor(signal) {
    this.#signal = signal;
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

/** A text that is worked on, one generation at a time: a second one gets an EmberError with the code "BUSY". */
export class Context {
  #handle;

  #model;
  #running = false;

  constructor(model, handle) {
    this.#model = model;
    this.#handle = handle;
  }

  /**
   * Continues the context by a prompt (text or tokens) and by what the model says to it, and yields an event for each token and for
   * the end: { kind: "token" | "end", text, token, logprob, finishReason }. The texts of all events in a row are the whole text.
   *
   * Options: maxTokens, stop (texts), temperature, topK, topP, minP, seed (with any of these tokens are drawn, otherwise the
   * likeliest is taken), logprobs, reusePrefix, ignoreEog, and signal, an AbortSignal, whose reason is thrown when it ends the
   * generation. Leaving the loop ends it, too.
   */
  async *generate(prompt, options = {}) {
    only(options, "generate", [...Object.keys(generateSetters), ...samplerStages.map(([name]) => name), "seed", "stop", "signal"]);
    options.signal?.throwIfAborted();
    if (this.#running) throw new EmberError("the context is at work: a generation of its own has not ended", "BUSY");
    this.#running = true;
    try {
      yield* this.#events(prompt, options);
    } finally {
      this.#running = false;
    }
  }

  async *#events(prompt, options) {
    const tokens = typeof prompt === "string" ? this.#model.tokenize(prompt) : Uint32Array.from(prompt);
    const made = []; // what is closed at the end
    try {
      const cancel = new Cancel(options.signal);
      made.push(cancel);
      const generator = this.#generator(tokens, options, cancel, made);
      made.unshift(generator);
      for (let event = newEvent(), kind; kind !== "end"; ) {
        try {
          // The context must not be freed meanwhile, and neither must the generator.
          await this.#handle.use(() => generator.use((g) => generatorNext(g, event)));
        } catch (error) {
          throw cancel.reason(error);
        }
        kind = KIND[event.kind];
        const finishReason = FINISH[event.finish_reason];
        if (finishReason === "cancelled") cancel.throwIfAborted();
        const token = kind === "token" ? event.token : undefined;
        yield { kind, text: textOf(event), token, logprob: event.logprob, finishReason };
      }
    } finally {
      for (const one of made) one.close();
    }
  }

  #generator(tokens, options, cancel, closing) {
    const how = optionsHandle("options", generateOptionsNew, "ember_generate_options_free", options, generateSetters);
    closing.push(how);
    for (const text of [options.stop ?? []].flat()) how.use((o) => addStop(o, ...utf8(text)));
    how.use((o) => cancel.handle.use((t) => setToken(o, t)));
    const create = (sampler) =>
      this.#handle.use((c) => how.use((o) => made(generatorNew, c, tokens, tokens.length, o, sampler)));
    const stages = samplerStages.filter(([name]) => isSet(options[name]));
    if (stages.length === 0 && !isSet(options.seed)) return new Handle("generation", create(null), "ember_generator_free");
    const seed = isSet(options.seed) ? BigInt(options.seed) : SEED_RANDOM;
    if (isSet(options.seed) && (seed < 0n || seed >= SEED_RANDOM)) throw new EmberError(`seed must be 0 to 2^64 - 2, not ${seed}`, "INVALID_ARGUMENT");
    const sampler = new Handle("sampler", made(samplerNew, seed), "ember_sampler_free");
    closing.push(sampler);
    for (const [name, add] of stages) sampler.use((s) => add(s, options[name]));
    return new Handle("generation", sampler.use(create), "ember_generator_free");
  }

  /**
   * The answer to a conversation, by the model's chat template; options are those of generate and of applyChatTemplate. Give all of the
   * conversation each time: what the context holds of it already is not run again.
   */
  async *chat(messages, { tools, variables, template, ...options } = {}) {
    const text = this.#model.applyChatTemplate(messages, { tools, variables, template });
    const tokens = this.#model.tokenize(text, { addSpecial: false, parseSpecial: true });
    yield* this.generate(tokens, { reusePrefix: true, ...options });
  }

  /** Forgets what is behind position n. */
  rewind(n = 0) {
    this.#handle.use((c) => rewind(c, 0, n));
  }

  /** Frees the context, once what is running with it has ended. */
  close() {
    this.#handle.close();
    this.#model.close();
  }
}
