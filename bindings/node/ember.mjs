// Ember for Node: language models on the CPU, inside the process, without blocking the event loop.
import { ChatParser } from "./chat_parser.mjs";
import { Constraint } from "./constraint.mjs";
import { Conversation } from "./conversation.mjs";
import { Engine } from "./engine.mjs";
import { EmberError, Handle, call, callAsync, generatedOf, made, newStruct, usageOf, utf8 } from "./native.mjs";
import {
  CHAT, CLASSIFY, Cancel, EMBED, GENERATE, POOLINGS, chatOptions, classifyOptions, contextOptions, contextSetters, embedOptions, filled,
  filledAsync, generateOptions, number, only, optionsHandle, rowsOf, samplerOf, textArrays,
} from "./options.mjs";
import { Tokenizer } from "./tokenizer.mjs";

export { ChatParser, Constraint, Conversation, EmberError, Engine, Tokenizer };

const modelLoad = callAsync("ember_model_load", "uint8_t *path, size_t n, void *options, _Out_ void **out");
const modelLoadFd = callAsync("ember_model_load_fd", "int32_t fd, uint64_t offset, uint64_t n, void *options, _Out_ void **out");
const modelLoadBuffer = callAsync("ember_model_load_buffer", "uint8_t *data, size_t n, void *options, _Out_ void **out");
const memoryEstimate = call(
  "ember_memory_estimate",
  "uint8_t *path, size_t n, void *model_options, void *context_options, _Inout_ ember_memory *out",
);
const inspect = call("ember_model_inspect", "uint8_t *path, size_t n, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const modelRetain = call.pointer("ember_model_retain", "void *model");
const modelOptionsNew = call("ember_model_options_new", "_Out_ void **out");
const modelOptionsToken = call("ember_model_options_set_cancel_token", "void *options, void *token");
const applyTemplate = call(
  "ember_chat_apply_template",
  "void *model, uint8_t *messages, size_t n, void *options, uint8_t *buffer, size_t capacity, _Out_ size_t *needed",
);
const tokenizeChat = call(
  "ember_chat_tokenize",
  "void *model, uint8_t *messages, size_t n, void *options, uint32_t *tokens, size_t capacity, _Out_ size_t *needed",
);
const tokenize = call(
  "ember_model_tokenize",
  "void *model, uint8_t *text, size_t n, bool add_special, bool parse_special, uint32_t *tokens, size_t capacity, _Out_ size_t *needed",
);
const contextNew = call("ember_context_new", "void *model, void *options, _Out_ void **out");
const contextMemory = call("ember_context_memory", "void *context, _Inout_ ember_memory *out");
const past = call("ember_context_n_past", "void *context, uint32_t sequence, _Out_ uint32_t *out");
const sequenceCopy = call("ember_context_sequence_copy", "void *context, uint32_t from, uint32_t to, uint32_t n");
const stateSave = call("ember_context_state_save", "void *context, uint32_t sequence, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const stateLoad = call("ember_context_state_load", "void *context, uint32_t sequence, uint8_t *data, size_t n");
const stateSaveFile = call("ember_context_state_save_file", "void *context, uint32_t sequence, uint8_t *path, size_t n");
const stateLoadFile = call("ember_context_state_load_file", "void *context, uint32_t sequence, uint8_t *path, size_t n");
const score = callAsync(
  "ember_score",
  "void *context, uint8_t *prompt, size_t n, uint8_t *continuation, size_t m, void *options, _Out_ uint8_t *scores, size_t capacity, " +
    "_Out_ size_t *needed, _Inout_ ember_score_result *result",
);
const rewind = call("ember_context_rewind", "void *context, uint32_t sequence, uint32_t n_past");
const generatorNew = call(
  "ember_generator_new_tokens",
  "void *context, uint32_t *tokens, size_t n, void *options, void *sampler, _Out_ void **out",
);
const generatorNext = callAsync("ember_generator_next", "void *generator, _Inout_ ember_event *event");
const generatorUsage = call("ember_generator_usage", "void *generator, _Inout_ ember_generate_result *usage");

const completionsNew = call(
  "ember_completions_new_tokens",
  "void *context, uint32_t *tokens, size_t n, uint32_t n_completions, void *options, void *sampler, _Out_ void **out",
);
const completionsNext = callAsync("ember_completions_next", "void *completions, _Inout_ ember_event *event, _Out_ uint32_t *index");
const completionsUsage = call("ember_completions_usage", "void *completions, uint32_t index, _Inout_ ember_generate_result *usage");
const completionsRank = call("ember_completions_rank", "void *completions, uint32_t *buffer, size_t capacity, _Out_ size_t *needed");
const completionsText = call(
  "ember_completions_text",
  "void *completions, uint32_t index, uint8_t *buffer, size_t capacity, _Out_ size_t *needed",
);
const modelInfo = call("ember_model_info_get", "void *model, _Inout_ ember_model_info *info");
const labelCount = call("ember_model_label_count", "void *model, _Out_ size_t *out");
const label = call("ember_model_label", "void *model, size_t index, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const setCancelToken = call("ember_context_set_cancel_token", "void *context, void *token");
const SCORED = "void *options, float *scores, size_t capacity, _Out_ size_t *needed";
const embed = callAsync("ember_embed", `void *context, uint8_t **texts, size_t *lengths, size_t n, ${SCORED}`);
const classify = callAsync("ember_classify", `void *context, uint8_t **texts, size_t *lengths, size_t n, ${SCORED}`);
const rerank = callAsync(
  "ember_rerank",
  `void *context, uint8_t *query, size_t query_len, uint8_t **documents, size_t *lengths, size_t n, ${SCORED}`,
);

const SCORE_SIZE = 12; // of an ember_token_score
const NO_TOKEN = 0xffffffff;

/** A model: immutable, for any number of contexts, which keep it. */
export class Model {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  /**
   * Loads a GGUF file or a folder of Hugging Face, given its path, or a GGUF file given its bytes (a Uint8Array, of which the model has a
   * copy) or { fd, offset = 0, length = 0 }, a part of an open file, to its end where length is 0. `signal` (an AbortSignal) ends the loading.
   */
  static async load(source, { signal, ...rest } = {}) {
    only(rest, "Model.load", ["signal"]);
    signal?.throwIfAborted();
    const token = new Cancel(signal);
    const options = optionsHandle(modelOptionsNew, "ember_model_options_free", {}, {});
    try {
      token.handle.use((t) => options.use((o) => modelOptionsToken(o, t)));
      const [load, ...from] = sourceOf(source);
      return new Model(new Handle("model", await options.use((o) => made(load, ...from, o)), "ember_model_release"));
    } catch (error) {
      throw token.reason(error);
    } finally {
      options.close();
      token.close();
    }
  }

  /** What the header of a model's file says: an object with all metadata and whether the model would load (ember.h). No weight is read. */
  static inspect(path) {
    const from = utf8(path);
    const text = filled(8192, (n) => new Uint8Array(n), (buffer, needed) => inspect(...from, buffer, buffer.length, needed));
    return JSON.parse(Buffer.from(text).toString());
  }

  /** An engine, which runs many requests together: { nParallel, maxQueue (how many may wait), nCtx (positions of each), nThreads }. */
  engine(options = {}) {
    return Engine.of(this, options);
  }

  /** What loading a model and making a context would take, without doing it, as Context.memory; options are those of context. */
  static estimateMemory(path, options = {}) {
    only(options, "estimateMemory", Object.keys(contextSetters));
    const how = contextOptions(options);
    try {
      return memoryOf((out) => how.use((o) => memoryEstimate(...utf8(path), null, o, out)));
    } finally {
      how.close();
    }
  }

  /** The model's tokenizer, which it may outlive. */
  get tokenizer() {
    return Tokenizer.of(this);
  }

  /** Reads a reply to `prompt`, which applyChatTemplate gave, or "", with the same options and toolChoice and parallelCalls. */
  chatParser(prompt, options = {}) {
    return ChatParser.of(this, prompt, options);
  }

  /**
   * The model's dimensions: { parameters, fileSize, vocabularySize, trainedContext, embeddingLength, vectorLength, prompts, layers, bos, eos,
   * hasTokenizer, isCausal, pooling, hasChatTemplate }. A text's vector has vectorLength numbers, a token's embeddingLength; prompts is how
   * many prompts for texts to be embedded there are.
   */
  get info() {
    const raw = newStruct("ember_model_info");
    this.use((m) => modelInfo(m, raw));
    const token = (id) => (id === NO_TOKEN ? undefined : id);
    return {
      parameters: Number(raw.n_params),
      fileSize: Number(raw.file_size),
      vocabularySize: raw.n_vocab,
      trainedContext: raw.n_ctx_train,
      embeddingLength: raw.n_embd,
      vectorLength: raw.n_embd_out,
      prompts: raw.n_prompts,
      layers: raw.n_layer,
      bos: token(raw.bos_token),
      eos: token(raw.eos_token),
      hasTokenizer: raw.has_tokenizer !== 0,
      isCausal: raw.causal !== 0,
      pooling: POOLINGS[raw.pooling + 1],
      hasChatTemplate: raw.has_chat_template !== 0,
    };
  }

  /** What Context.classify scores, in the order of the scores. */
  get labels() {
    const n = [0];
    this.use((m) => labelCount(m, n));
    const text = (i) =>
      filled(64, (room) => new Uint8Array(room), (buffer, needed) => this.use((m) => label(m, i, buffer, buffer.length, needed)));
    return Array.from({ length: Number(n[0]) }, (_, i) => Buffer.from(text(i)).toString());
  }

  /** The text of a conversation as the model was trained on it. Options: tools, variables, template, templateName, thinking. */
  applyChatTemplate(messages, options = {}) {
    only(options, "applyChatTemplate", CHAT);
    return Buffer.from(this.#chat(messages, options, applyTemplate, 2, (n) => new Uint8Array(n))).toString();
  }

  /** Its tokens, a Uint32Array: no text of a message or tool can spell a control token. */
  tokenizeChat(messages, options = {}) {
    only(options, "tokenizeChat", CHAT);
    return this.#chat(messages, options, tokenizeChat, 1, (n) => new Uint32Array(n));
  }

  #chat(messages, options, f, room, make) {
    const how = chatOptions(options);
    try {
      const text = utf8(JSON.stringify(messages));
      const fill = (buffer, needed) => this.use((m) => how.use((o) => f(m, ...text, o, buffer, buffer.length, needed)));
      return filled(room * text[1] + 256, make, fill);
    } finally {
      how.close();
    }
  }

  /** The tokens of a text, a Uint32Array. */
  tokenize(text, { addSpecial = true, parseSpecial = false } = {}) {
    const bytes = utf8(text);
    const fill = (buffer, needed) =>
      this.use((m) => tokenize(m, ...bytes, addSpecial, parseSpecial, buffer, buffer.length, needed));
    return filled(bytes[1] + 8, (n) => new Uint32Array(n), fill);
  }

  /** A context: the text that is worked on. `nCtx`: its positions; `nThreads`; `nSeq`: how many sequences, for completions. */
  context(options = {}) {
    only(options, "context", Object.keys(contextSetters));
    const handle = contextOptions(options);
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

/** A text that is worked on, one generation at a time: a second one gets an EmberError with the code "BUSY". */
export class Context {
  #handle;

  #model;
  #running = false;

  constructor(model, handle) {
    this.#model = model;
    this.#handle = handle;
  }

  /** Has the context to itself until the function that this gives is called. */
  #take() {
    if (this.#running) throw new EmberError("the context is at work: a generation of its own has not ended", "BUSY");
    this.#running = true;
    return () => (this.#running = false);
  }

  /**
   * Continues the context by a prompt (text or tokens) and by what the model says to it, and yields an event for each token and for
   * the end: { kind: "token" | "end", text, token, logprob, top, finishReason }; top are the likeliest tokens at its place, as many as the
   * option topLogprobs says, { token, logprob } each. The texts of all events in a row are the whole text. That of
   * the end has usage, too: { promptTokens, reusedTokens, generatedTokens, draftedTokens, acceptedTokens, shiftedTokens, forcedTokens,
   * prefillMs, decodeMs, finishReason, progress }; progress is "complete" where the
   * text is what a constraint asked for, "unfinished" where it was cut off, "waiting" where no trigger came, or "none".
   *
   * Options: maxTokens, stop (texts), penalties ({ last, repeat, frequency, presence }), topNSigma, topK, typicalP, topP, minP,
   * xtc ({ probability, threshold }), temperature, dynamicTemperature ({ temperature, range, exponent }), mirostat ({ tau, eta }) and
   * adaptiveP ({ target, decay }), which are applied in this order, seed (with any from penalties on tokens are drawn, otherwise the
   * likeliest is taken), constraint, logprobs, topLogprobs, reusePrefix, ignoreEog, renderSpecial, includeStop, sequence (which one of the context's goes
   * on), timeLimit (milliseconds), shift ({ keep, drop }: tokens forgotten when the context is full), lookup ({ count, ngram }) and draft
   * ({ context, sequence, count }: a smaller model's), which guess tokens and leave the text what it is, and signal, an AbortSignal, whose
   * reason is thrown when it ends the generation. Leaving the loop ends it, too.
   */
  async *generate(prompt, options = {}) {
    only(options, "generate", [...GENERATE, "signal"]);
    options.signal?.throwIfAborted();
    const release = this.#take();
    try {
      yield* this.#events(prompt, options);
    } finally {
      release();
    }
  }

  async *#events(prompt, options) {
    const tokens = typeof prompt === "string" ? this.#model.tokenize(prompt) : Uint32Array.from(prompt);
    const closing = [];
    const closed = (handle) => (handle === undefined || closing.unshift(handle), handle);
    try {
      const cancel = closed(new Cancel(options.signal));
      const how = closed(generateOptions(options, cancel));
      const sampler = closed(samplerOf(options));
      const create = (s) => this.#handle.use((c) => how.use((o) => made(generatorNew, c, tokens, tokens.length, o, s)));
      const generator = closed(new Handle("generation", sampler ? sampler.use(create) : create(null), "ember_generator_free"));
      for (let raw = newStruct("ember_event"), event; event?.kind !== "end"; ) {
        try {
          // The context must not be freed meanwhile, and neither must the generator.
          await this.#handle.use(() => generator.use((g) => generatorNext(g, raw)));
        } catch (error) {
          throw cancel.reason(error);
        }
        event = generatedOf(raw);
        if (event.finishReason === "cancelled") cancel.throwIfAborted();
        if (event.kind === "end") event.usage = usageOf((out) => generator.use((g) => generatorUsage(g, out)));
        yield event;
      }
    } finally {
      for (const one of closing) one.close();
    }
  }

  /**
   * `n` completions of a prompt (text or tokens), which runs once. Yields their events as generate does, each with the index of its
   * completion; they take turns, a token each. The loop's end has them ranked: the generator returns { texts, usages, best }, where `best` is the
   * order by the mean log-probability of their tokens, the likeliest first, if the option logprobs is set. Completion i draws with seed + i,
   * in the sequence i behind the option `sequence`.
   */
  async *completions(prompt, n, options = {}) {
    only(options, "completions", [...GENERATE, "signal"]);
    number("n", n);
    options.signal?.throwIfAborted();
    const release = this.#take();
    const closing = [];
    const closed = (handle) => (handle === undefined || closing.unshift(handle), handle);
    try {
      const tokens = typeof prompt === "string" ? this.#model.tokenize(prompt) : Uint32Array.from(prompt);
      const cancel = closed(new Cancel(options.signal));
      const how = closed(generateOptions(options, cancel));
      const sampler = closed(samplerOf(options));
      const create = (s) => this.#handle.use((c) => how.use((o) => made(completionsNew, c, tokens, tokens.length, n, o, s)));
      const all = closed(new Handle("completions", sampler ? sampler.use(create) : create(null), "ember_completions_free"));
      const usage = (i) => usageOf((out) => all.use((p) => completionsUsage(p, i, out)));
      for (const raw = newStruct("ember_event"), at = [0]; ; ) {
        try {
          await this.#handle.use(() => all.use((p) => completionsNext(p, raw, at)));
        } catch (error) {
          throw cancel.reason(error);
        }
        const event = generatedOf(raw);
        if (event === undefined) break; // all have ended
        if (event.finishReason === "cancelled") cancel.throwIfAborted();
        if (event.kind === "end") event.usage = usage(at[0]);
        yield { index: at[0], ...event };
      }
      const bytes = (room) => new Uint8Array(room);
      const text = (i) => filled(256, bytes, (buffer, needed) => all.use((p) => completionsText(p, i, buffer, buffer.length, needed)));
      const texts = Array.from({ length: n }, (_, i) => Buffer.from(text(i)).toString());
      const rank = (buffer, needed) => all.use((p) => completionsRank(p, buffer, buffer.length, needed));
      const best = options.logprobs ? Array.from(filled(n, (room) => new Uint32Array(room), rank)) : undefined;
      return { texts, usages: texts.map((_, i) => usage(i)), best };
    } finally {
      for (const one of closing) one.close();
      release();
    }
  }

  /**
   * The answer to a conversation, by the model's chat template; options are those of generate and of applyChatTemplate. Give all of the
   * conversation each time: what the context holds of it already is not run again. No text of a message can spell a control token.
   */
  async *chat(messages, options = {}) {
    only(options, "chat", [...CHAT, ...GENERATE, "signal"]);
    const chat = Object.fromEntries(CHAT.map((name) => [name, options[name]]));
    const rest = Object.fromEntries(Object.entries(options).filter(([name]) => !CHAT.includes(name)));
    yield* this.generate(this.#model.tokenizeChat(messages, chat), { reusePrefix: true, ...rest });
  }

  /**
   * A vector for each text, in their order, a Float32Array each; with pooling "none" one for each token of each text. Give many at
   * once. Options: pooling ("auto", "none", "mean", "cls", "last"), normalize, truncate, dimensions (how many numbers of each vector are
   * kept), prompt (the name of a prompt of the model's, such as "query"), and signal.
   */
  async embed(texts, { signal, ...options } = {}) {
    only(options, "embed", [...EMBED, "signal"]);
    const info = this.#handle.use(() => this.#model.info);
    const pooling = (options.pooling ?? "auto") === "auto" ? info.pooling : options.pooling;
    const whole = pooling === "none" ? info.embeddingLength : info.vectorLength;
    const numbers = await this.#scores(texts.length * whole, signal, embedOptions(options), embed, textArrays(texts));
    return rowsOf(numbers, options.dimensions || whole);
  }

  /** The scores of each text, one for each of Model.labels. Options: activation ("auto", "none", "sigmoid", "softmax"), truncate, yesNo, signal. */
  async classify(texts, { signal, ...options } = {}) {
    only(options, "classify", [...CLASSIFY, "signal"]);
    const numbers = await this.#scores(texts.length, signal, classifyOptions(options), classify, textArrays(texts));
    return rowsOf(numbers, texts.length > 0 ? numbers.length / texts.length : 0);
  }

  /** How well each document answers the query: a score for each, the higher the better. Options are those of classify, and template. */
  async rerank(query, documents, { signal, ...options } = {}) {
    only(options, "rerank", [...CLASSIFY, "signal"]);
    const numbers = await this.#scores(documents.length, signal, classifyOptions(options), rerank, [...utf8(query), ...textArrays(documents)]);
    return Array.from(numbers);
  }

  /** What a function writes whose arguments are the context, these, and the options, which are closed. */
  async #scores(room, signal, how, f, values) {
    let release;
    let cancel;
    try {
      signal?.throwIfAborted();
      release = this.#take();
      cancel = new Cancel(signal);
      this.#handle.use((c) => cancel.handle.use((t) => setCancelToken(c, t)));
      const fill = (buffer, needed) => this.#handle.use((c) => how.use((o) => f(c, ...values, o, buffer, buffer.length, needed)));
      return await filledAsync(room, (n) => new Float32Array(n), fill);
    } catch (error) {
      throw cancel?.reason(error) ?? error;
    } finally {
      if (cancel && !this.#handle.closed) this.#handle.use((c) => setCancelToken(c, null));
      how.close();
      cancel?.close();
      release?.();
    }
  }

  /** A conversation that keeps what was said, for a promise; Conversation says with which options. */
  conversation(options = {}) {
    return Conversation.make(this.#handle, () => this.#take(), options);
  }

  /** Forgets what is behind position n of a sequence. */
  rewind(n = 0, sequence = 0) {
    this.#handle.use((c) => rewind(c, number("sequence", sequence), number("n", n)));
  }

  /** The number of tokens in a sequence. */
  past(sequence = 0) {
    const out = [0];
    this.#handle.use((c) => past(c, number("sequence", sequence), out));
    return out[0];
  }

  /** Makes sequence `to` the first n tokens of sequence `from`, at next to no cost: for several answers to one prompt. */
  copySequence(from, to, n) {
    this.#handle.use((c) => sequenceCopy(c, number("from", from), number("to", to), number("n", n)));
  }

  /** A sequence as bytes, for loadState, in another process too. */
  saveState(sequence = 0) {
    const fill = (buffer, needed) => this.#handle.use((c) => stateSave(c, number("sequence", sequence), buffer, buffer.length, needed));
    return filled(0, (n) => new Uint8Array(n), fill);
  }

  /** Makes a sequence what saveState gave, of the same model. On an error all is as it was. */
  loadState(state, sequence = 0) {
    this.#handle.use((c) => stateLoad(c, number("sequence", sequence), state, state.length));
  }

  /** As saveState and loadState, to and from a file. One that was there before stays as it was when saving fails. */
  saveStateFile(path, sequence = 0) {
    this.#handle.use((c) => stateSaveFile(c, number("sequence", sequence), ...utf8(path)));
  }

  loadStateFile(path, sequence = 0) {
    this.#handle.use((c) => stateLoadFile(c, number("sequence", sequence), ...utf8(path)));
  }

  /**
   * How likely a continuation is behind a prompt: { tokens: [{ token, logprob, rank }], logprob, promptTokens, reusedTokens, greedy }; rank
   * is how many tokens are likelier at its place. Scoring many continuations of one prompt runs the prompt once.
   */
  async score(prompt, continuation) {
    const release = this.#take();
    try {
      const texts = [...utf8(prompt), ...utf8(continuation)];
      const result = newStruct("ember_score_result");
      const fill = (buffer, needed) =>
        this.#handle.use((c) => score(c, ...texts, null, buffer, buffer.length / SCORE_SIZE, needed, result));
      const raw = await filledAsync(texts[3] + 8, (n) => new Uint8Array(SCORE_SIZE * n), fill, SCORE_SIZE);
      const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
      const isLittle = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
      const tokens = Array.from({ length: raw.length / SCORE_SIZE }, (_, i) => ({
        token: view.getUint32(i * SCORE_SIZE, isLittle),
        logprob: view.getFloat32(i * SCORE_SIZE + 4, isLittle),
        rank: view.getUint32(i * SCORE_SIZE + 8, isLittle),
      }));
      const { logprob, n_prompt, n_reused, is_greedy } = result;
      return { tokens, logprob, promptTokens: n_prompt, reusedTokens: n_reused, greedy: is_greedy !== 0 };
    } finally {
      release();
    }
  }

  /** Bytes that the context takes, and its model: { file, weights, kv, workspace }; the file's mapping is read again where need be. */
  get memory() {
    return memoryOf((out) => this.#handle.use((c) => contextMemory(c, out)));
  }

  use(f) {
    return this.#handle.use(f);
  }

  /** Frees the context, once what is running with it has ended. */
  close() {
    this.#handle.close();
    this.#model.close();
  }
}

/** The function that loads what Model.load is given, and its arguments. */
function sourceOf(source) {
  if (typeof source === "string") return [modelLoad, ...utf8(source)];
  if (source instanceof Uint8Array) return [modelLoadBuffer, source, source.length];
  const { fd, offset = 0, length = 0, ...rest } = source ?? {};
  only(rest, "Model.load", ["fd", "offset", "length"]);
  if (!Number.isInteger(fd)) throw new EmberError("give a path, a Uint8Array, or an object with an fd", "INVALID_ARGUMENT");
  for (const n of [offset, length]) {
    if (!Number.isSafeInteger(n) || n < 0) throw new EmberError(`offset and length must be whole numbers, not ${n}`, "INVALID_ARGUMENT");
  }
  return [modelLoadFd, fd, offset, length];
}

function memoryOf(read) {
  const raw = newStruct("ember_memory");
  read(raw);
  return Object.fromEntries(["file", "weights", "kv", "workspace"].map((name) => [name, Number(raw[name])]));
}
