// Contexts: texts that are worked on.
import { Conversation } from "./conversation.mjs";
import {
  Callback, Closing, EmberError, HANDLE, Handle, Owner, call, callAsync, contextInfoOf, filled, generatedOf, made, memoryOf, newStruct,
  numbersAt, putNumbers, refused, rowsOf, textArrays, useAll, usageOf, utf8,
} from "./native.mjs";
import {
  APPLY, CHAT, CLASSIFY, CONTEXT, Cancel, EMBED, classifyOptions, contextOptions, embedOptions, generateOptions, isSet, number, only, size,
} from "./options.mjs";
import { GENERATE, samplerOf } from "./sampler.mjs";

/** In place of a sequence's number, for states: all sequences of the context. */
export const ALL_SEQUENCES = 0xffffffff;

const contextNew = call("ember_context_new", "void *model, void *options, _Out_ void **out");
const infoGet = call("ember_context_info_get", "void *context, _Inout_ ember_context_info *out");
const memoryGet = call("ember_context_memory", "void *context, _Inout_ ember_memory *out");
const timingsGet = call("ember_context_timings_get", "void *context, _Inout_ ember_timings *out");
const timingsReset = call("ember_context_timings_reset", "void *context");
const setCancelToken = call("ember_context_set_cancel_token", "void *context, void *token");
const decode = callAsync(
  "ember_context_decode",
  "void *context, uint32_t *tokens, uint32_t *positions, uint32_t *sequences, uint8_t *wanted, size_t n",
);
const logitsOf = call("ember_context_logits", "void *context, size_t index, _Out_ void **out");
const past = call("ember_context_n_past", "void *context, uint32_t sequence, _Out_ uint32_t *out");
const tokens = call("ember_context_tokens", "void *context, uint32_t sequence, uint32_t *tokens, size_t capacity, _Out_ size_t *needed");
const rewind = call("ember_context_rewind", "void *context, uint32_t sequence, uint32_t n_past");
const sequenceCopy = call("ember_context_sequence_copy", "void *context, uint32_t from, uint32_t to, uint32_t n");
const sequenceKeep = call("ember_context_sequence_keep", "void *context, uint32_t sequence");
const sequenceReuse = call(
  "ember_context_sequence_reuse",
  "void *context, uint32_t sequence, uint32_t *tokens, size_t n, size_t most, _Out_ size_t *n_reused",
);
const sequenceShift = callAsync("ember_context_sequence_shift", "void *context, uint32_t sequence, uint32_t keep, uint32_t drop");
const stateSave = call("ember_context_state_save", "void *context, uint32_t sequence, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const stateLoad = call("ember_context_state_load", "void *context, uint32_t sequence, uint8_t *data, size_t n");
const stateSaveFile = call("ember_context_state_save_file", "void *context, uint32_t sequence, uint8_t *path, size_t n");
const stateLoadFile = call("ember_context_state_load_file", "void *context, uint32_t sequence, uint8_t *path, size_t n");
const stateWrite = callAsync("ember_context_state_write", "void *context, uint32_t sequence, ember_write_callback *callback, void *user_data");
const stateRead = callAsync("ember_context_state_read", "void *context, uint32_t sequence, ember_read_callback *callback, void *user_data");
const SCORED_TOKENS = "void *options, _Out_ uint8_t *scores, size_t capacity, _Out_ size_t *needed, _Inout_ ember_score_result *result";
const score = callAsync("ember_score", `void *context, uint8_t *prompt, size_t n, uint8_t *continuation, size_t m, ${SCORED_TOKENS}`);
const scoreTokens = callAsync("ember_score_tokens", `void *context, uint32_t *tokens, size_t n, size_t n_prompt, ${SCORED_TOKENS}`);
const GENERATED = "void *options, void *sampler, _Out_ void **out";
const generatorNew = callAsync("ember_generator_new", `void *context, uint8_t *prompt, size_t n, ${GENERATED}`);
const generatorNewTokens = call("ember_generator_new_tokens", `void *context, uint32_t *tokens, size_t n, ${GENERATED}`);
const generatorNext = callAsync("ember_generator_next", "void *generator, _Inout_ ember_event *event");
const generatorUsage = call("ember_generator_usage", "void *generator, _Inout_ ember_generate_result *usage");
const completionsNew = callAsync("ember_completions_new", `void *context, uint8_t *prompt, size_t n, uint32_t n_completions, ${GENERATED}`);
const completionsNewTokens = call(
  "ember_completions_new_tokens",
  `void *context, uint32_t *tokens, size_t n, uint32_t n_completions, ${GENERATED}`,
);
const completionsNext = callAsync("ember_completions_next", "void *completions, _Inout_ ember_event *event, _Out_ uint32_t *index");
const completionsUsage = call("ember_completions_usage", "void *completions, uint32_t index, _Inout_ ember_generate_result *usage");
const completionsRank = call("ember_completions_rank", "void *completions, uint32_t *buffer, size_t capacity, _Out_ size_t *needed");
const completionsText = call(
  "ember_completions_text",
  "void *completions, uint32_t index, uint8_t *buffer, size_t capacity, _Out_ size_t *needed",
);
const SCORED = "void *options, float *scores, size_t capacity, _Out_ size_t *needed";
const embed = callAsync("ember_embed", `void *context, uint8_t **texts, size_t *lengths, size_t n, ${SCORED}`);
const embedTokens = callAsync("ember_embed_tokens", `void *context, uint32_t *tokens, size_t n, size_t *lengths, size_t n_texts, ${SCORED}`);
const classify = callAsync("ember_classify", `void *context, uint8_t **texts, size_t *lengths, size_t n, ${SCORED}`);
const rerank = callAsync(
  "ember_rerank",
  `void *context, uint8_t *query, size_t query_len, uint8_t **documents, size_t *lengths, size_t n, ${SCORED}`,
);

const SCORE_SIZE = 12; // of an ember_token_score
const SCORE_OPTIONS = ["sequence", "parseSpecial"];

/** A text that is worked on, one generation at a time: a second one gets an EmberError with the code "BUSY". */
export class Context extends Owner {
  #model;
  #running = false;

  constructor(model, handle) {
    super(handle);
    this.#model = model;
  }

  static of(model, options) {
    only(options, "context", CONTEXT);
    const how = contextOptions(options);
    try {
      const pointer = model.use((m) => how.use((o) => made(contextNew, m, o)));
      return new Context(model.retained(), new Handle("context", pointer, "ember_context_free"));
    } finally {
      how.close();
    }
  }

  /** Has the context to itself until the function that this gives is called. */
  #take() {
    if (this.#running) throw new EmberError("the context is at work: a generation of its own has not ended", "BUSY");
    this.#running = true;
    return () => (this.#running = false);
  }

  /**
   * Continues the context by a prompt (text or tokens) and by what the model says to it. Yields an event for each token and for the end:
   * { kind: "echo" | "token" | "end", text, token, logprob, top, finishReason }. top are the likeliest tokens at its place, as many as the
   * option topLogprobs says: { token, logprob } each. The texts of all events in a row are the whole text. The event of the end has usage,
   * too: { promptTokens, reusedTokens, generatedTokens, draftedTokens, acceptedTokens, shiftedTokens, forcedTokens, prefillMs, decodeMs,
   * sumLogprob, meanLogprob, finishReason, progress }. progress is "complete" where the text is what a constraint asked for, "unfinished"
   * where it was cut off, "waiting" where no trigger came, or "none".
   *
   * Options: maxTokens, stop (texts); stages of a sampler, which are applied in this order: logitBias ({ token: number }), allow, deny
   * (tokens), penalties ({ last, repeat, frequency, presence, generatedOnly }), dry ({ multiplier, base, allowedLength, last, breakers }),
   * topNSigma, topK, typicalP, topP, minP, xtc ({ probability, threshold }), temperature, dynamicTemperature ({ temperature, range,
   * exponent }), infill, candidates (a function of tokens and logits, which it may change), greedy, mirostat ({ tau, eta }), mirostat1 ({
   * tau, eta, m }) and adaptiveP ({ target, decay }); or `stages`, an array of these in an order of one's own ([{ temperature: 1.5 }, {
   * topK: 5 }]); or sampler, a Sampler; seed (with any from logitBias on tokens are drawn, otherwise the likeliest is taken); constraint,
   * logprobs, topLogprobs, reusePrefix, ignoreEog, renderSpecial, parseSpecial (whether the prompt may spell control tokens), includeStop,
   * echo (the prompt's text comes first), sequence (which one of the context's goes on), timeLimit (milliseconds), shift ({ keep, drop }:
   * tokens forgotten when the context is full), lookup ({ count, ngram }) and draft ({ context, sequence, count }: a smaller model's),
   * which propose draft tokens and leave the text what it is; and signal, an AbortSignal, whose reason is thrown when it ends the
   * generation. Leaving the loop ends it, too.
   */
  async *generate(prompt, options = {}) {
    only(options, "generate", [...GENERATE, "signal"]);
    options.signal?.throwIfAborted();
    const release = this.#take();
    const closing = new Closing();
    try {
      const { next } = await this.#begin(closing, "generation", "ember_generator_free", options, (...how) =>
        typeof prompt === "string"
          ? [generatorNew, ...utf8(prompt), ...how]
          : [generatorNewTokens, ...numbered(prompt), ...how]);
      for (let raw = newStruct("ember_event"), event; event?.kind !== "end"; ) {
        await next((g) => generatorNext(g, raw));
        event = next.event(raw, generatorUsage);
        yield event;
      }
    } finally {
      closing.close();
      release();
    }
  }

  /**
   * `n` completions of a prompt (text or tokens), which runs once. Yields their events as generate does, each with the index of its
   * completion; they take turns, a token each. At the loop's end the generator returns { texts, usages, best }. With the option logprobs,
   * `best` is their order by the mean log-probability of their tokens, the likeliest first. Completion i draws with seed + i, in the
   * sequence i after the option `sequence`.
   */
  async *completions(prompt, n, options = {}) {
    only(options, "completions", [...GENERATE, "signal"]);
    number("n", n);
    options.signal?.throwIfAborted();
    const release = this.#take();
    const closing = new Closing();
    try {
      const { handle, next } = await this.#begin(closing, "completions", "ember_completions_free", options, (...how) =>
        typeof prompt === "string"
          ? [completionsNew, ...utf8(prompt), n, ...how]
          : [completionsNewTokens, ...numbered(prompt), n, ...how]);
      const usage = (i) => usageOf((out) => handle.call(completionsUsage, i, out));
      for (const raw = newStruct("ember_event"), at = [0]; ; ) {
        await next((p) => completionsNext(p, raw, at));
        const event = next.event(raw, (p, out) => completionsUsage(p, at[0], out));
        if (event === undefined) break; // all have ended
        yield { index: at[0], ...event };
      }
      const texts = Array.from({ length: n }, (_, i) => handle.text(completionsText, 256, i));
      const isRanked = options.logprobs || options.topLogprobs > 0;
      const best = isRanked ? Array.from(handle.tokens(completionsRank, n)) : undefined;
      return { texts, usages: texts.map((_, i) => usage(i)), best };
    } finally {
      closing.close();
      release();
    }
  }

  /**
   * Begins a generation: { handle, next }. `create` gives the function that makes it and its arguments after the context, of which the last
   * two come from here. `next(f)` has f take its next event, and `next.event` reads that.
   */
  async #begin(closing, what, free, options, create) {
    const cancel = closing.keep(new Cancel(options.signal));
    const how = closing.keep(generateOptions(options, cancel));
    const sampler = closing.keep(samplerOf(options, this.#model));
    const failed = (error) => {
      sampler?.check();
      return cancel.reason(error);
    };
    let pointer;
    try {
      pointer = await useAll([this, how, sampler], (c, o, s) => {
        const [f, ...values] = create(o, s);
        return made(f, c, ...values);
      });
    } catch (error) {
      throw failed(error);
    }
    const handle = closing.keep(new Handle(what, pointer, free));
    const next = async (f) => {
      try {
        // The context must not be freed meanwhile, and neither must the generation.
        await useAll([this, handle], (_, g) => f(g));
      } catch (error) {
        throw failed(error);
      }
    };
    next.event = (raw, usage) => {
      const event = generatedOf(raw);
      if (event?.finishReason === "cancelled") {
        sampler?.check();
        cancel.throwIfAborted();
      }
      if (event?.kind === "end") event.usage = usageOf((out) => handle.use((g) => usage(g, out)));
      return event;
    };
    return { handle, next };
  }

  /**
   * The answer to a conversation, by the model's chat template; options are those of generate and of applyChatTemplate. Give all of the
   * conversation each time: what the context holds of it already is not run again. No text of a message can spell a control token.
   */
  async *chat(messages, options = {}) {
    only(options, "chat", [...CHAT, ...GENERATE, "signal"]);
    const chat = Object.fromEntries(CHAT.map((name) => [name, options[name]]));
    const rest = Object.fromEntries(Object.entries(options).filter(([name]) => !APPLY.includes(name)));
    yield* this.generate(this.#model.tokenizeChat(messages, chat), { reusePrefix: true, ...rest });
  }

  /**
   * A vector for each text, in their order, a Float32Array each; with pooling "none" one for each token of each text. Give many at
   * once. Options: pooling ("auto", "none", "mean", "cls", "last"), normalize, truncate, dimensions (how many numbers of each vector are
   * kept), prompt (the name of a prompt of the model's, such as "query"), and signal.
   */
  async embed(texts, options = {}) {
    return this.#embed(embed, texts.length, textArrays(texts), options);
  }

  /** The same for texts that are tokens already, an array of arrays, to which nothing is added. */
  async embedTokens(texts, options = {}) {
    const lengths = BigUint64Array.from(texts, (one) => BigInt(one.length));
    return this.#embed(embedTokens, texts.length, [...numbered(texts.map((one) => Array.from(one)).flat()), lengths, texts.length], options);
  }

  async #embed(f, n, values, { signal, ...options }) {
    only(options, "embed", [...EMBED, "signal"]);
    const info = this[HANDLE].use(() => this.#model.info);
    const pooling = (options.pooling ?? "auto") === "auto" ? info.pooling : options.pooling;
    const whole = pooling === "none" ? info.embeddingLength : info.vectorLength;
    return rowsOf(await this.#scores(n * whole, signal, embedOptions(options), f, values), options.dimensions || whole);
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
  async #scores(capacity, signal, how, f, values) {
    const fill = (c) => how.use((o) => filled(Float32Array, capacity, (...to) => f(c, ...values, o, ...to)));
    try {
      return await this.#alone(signal, fill);
    } finally {
      how.close();
    }
  }

  /** Has f work with the context alone, until the signal, and gives what it gives. */
  async #alone(signal, f) {
    signal?.throwIfAborted();
    const release = this.#take();
    const cancel = new Cancel(signal);
    try {
      this[HANDLE].use((c) => cancel.handle.use((t) => setCancelToken(c, t)));
      return await this[HANDLE].use(f);
    } catch (error) {
      throw cancel.reason(error);
    } finally {
      if (!this[HANDLE].closed) this[HANDLE].call(setCancelToken, null);
      cancel.close();
      release();
    }
  }

  /** A conversation that keeps what was said, for a promise; Conversation says with which options. */
  conversation(options = {}) {
    return Conversation.make(this, this.#model, () => this.#take(), options);
  }

  /**
   * Runs tokens through the model and gives the logits after the last one, a Float32Array whose index is the token, for a Sampler.
   * Options: sequence (a number, or one for each token), positions (one for each token, which are checked), all (true: an array of the logits
   * after each), and signal.
   */
  async decode(given, { sequence = 0, positions, all = false, signal, ...rest } = {}) {
    only(rest, "decode", ["sequence", "positions", "all", "signal"]);
    const [run, n] = numbered(given);
    const sequences = typeof sequence === "number" ? new Uint32Array(n).fill(number("sequence", sequence)) : numbered(sequence)[0];
    const places = isSet(positions) ? numbered(positions)[0] : null;
    for (const [what, list] of Object.entries({ sequence: sequences, positions: places ?? run })) {
      if (list.length !== n) throw refused(`${what} has ${list.length} numbers for ${n} tokens`);
    }
    await this.#alone(signal, (c) => decode(c, run, places, sequences, all ? new Uint8Array(n).fill(1) : null, n));
    return all ? Array.from({ length: n }, (_, i) => this.logits(i)) : this.logits(n - 1);
  }

  /** The logits after token `index` of the last decode, as a copy; an EmberError with the code "NOT_FOUND" where they are gone. */
  logits(index) {
    const n = this.#model.info.vocabularySize;
    return this.use((c) => numbersAt(made(logitsOf, c, size("index", index)), "float", n));
  }

  /** Forgets what is after position n of a sequence. */
  rewind(n = 0, sequence = 0) {
    this[HANDLE].call(rewind, number("sequence", sequence), number("n", n));
  }

  /** The number of tokens in a sequence. */
  past(sequence = 0) {
    return this[HANDLE].made(past, number("sequence", sequence));
  }

  /** The tokens in a sequence, a Uint32Array. */
  tokens(sequence = 0) {
    return this[HANDLE].tokens(tokens, 256, number("sequence", sequence));
  }

  /** Makes sequence `to` the first n tokens of sequence `from`, at next to no cost: for several answers to one prompt. */
  copySequence(from, to, n) {
    this[HANDLE].call(sequenceCopy, number("from", from), number("to", to), number("n", n));
  }

  /** Empties all sequences but one. */
  keepSequence(sequence = 0) {
    this[HANDLE].call(sequenceKeep, number("sequence", sequence));
  }

  /**
   * Makes a sequence as much of the beginning of these tokens as the context has, but no more than `most`, and returns their number. The
   * sequence may have them already; with keepPrefixes, pages that were kept may have them too. Run the rest then, one token at least.
   */
  reusePrefix(given, { sequence = 0, most, ...rest } = {}) {
    only(rest, "reusePrefix", ["sequence", "most"]);
    const [all, n] = numbered(given);
    return Number(this[HANDLE].made(sequenceReuse, number("sequence", sequence), all, n, size("most", most ?? Math.max(n - 1, 0))));
  }

  /** Forgets `drop` tokens after the first `keep` of a sequence; those after them move forward. */
  async shift(keep, drop, sequence = 0) {
    await this.#alone(undefined, (c) => sequenceShift(c, number("sequence", sequence), number("keep", keep), number("drop", drop)));
  }

  /** A sequence as bytes, or all (ALL_SEQUENCES), for loadState, in another process too. */
  saveState(sequence = 0) {
    return this[HANDLE].bytes(stateSave, 0, number("sequence", sequence));
  }

  /** Makes a sequence what saveState gave, of the same model. On an error all is as it was. */
  loadState(state, sequence = 0) {
    this[HANDLE].call(stateLoad, number("sequence", sequence), state, state.length);
  }

  /** As saveState and loadState, to and from a file. One that was there before stays as it was when saving fails. */
  saveStateFile(path, sequence = 0) {
    this[HANDLE].call(stateSaveFile, number("sequence", sequence), ...utf8(path));
  }

  loadStateFile(path, sequence = 0) {
    this[HANDLE].call(stateLoadFile, number("sequence", sequence), ...utf8(path));
  }

  /** As saveState, part by part: `write` gets a Uint8Array of each; no copy of the whole is held, and the event loop goes on meanwhile. */
  async writeState(write, sequence = 0) {
    await this.#streamed(stateWrite, sequence, "ember_write_callback", 1, (data, n) => {
      write(numbersAt(data, "uint8_t", Number(n)));
      return 0;
    });
  }

  /** As loadState, part by part: `read(n)` gives a Uint8Array of n bytes at most, and an empty one at the end. */
  async readState(read, sequence = 0) {
    await this.#streamed(stateRead, sequence, "ember_read_callback", -1, (buffer, capacity) => {
      const part = read(Number(capacity));
      if (!(part instanceof Uint8Array) || part.length > Number(capacity)) throw refused(`read must give a Uint8Array of ${capacity} bytes at most`);
      if (part.length > 0) putNumbers(buffer, "uint8_t", part);
      return part.length;
    });
  }

  async #streamed(f, sequence, type, failed, part) {
    const callback = new Callback(type, failed, part);
    try {
      await this.#alone(undefined, (c) => f(c, number("sequence", sequence), callback.pointer, null));
    } catch (error) {
      callback.check();
      throw error;
    } finally {
      callback.close();
    }
  }

  /**
   * How likely a continuation is after a prompt: { tokens: [{ token, logprob, rank }], logprob, promptTokens, reusedTokens, greedy }; rank
   * is how many tokens are likelier at its place. Scoring many continuations of one prompt runs the prompt once. Both are texts, or both
   * tokens. Options: sequence, parseSpecial, signal.
   */
  async score(prompt, continuation, { signal, ...options } = {}) {
    only(options, "score", [...SCORE_OPTIONS, "signal"]);
    const isText = typeof prompt === "string";
    if (isText !== (typeof continuation === "string")) throw refused("prompt and continuation must both be texts, or both tokens");
    const values = isText ? [...utf8(prompt), ...utf8(continuation)] : [...numbered([...prompt, ...continuation]), prompt.length];
    const capacity = isText ? values[3] + 8 : continuation.length;
    const how = generateOptions(options);
    try {
      const result = newStruct("ember_score_result");
      const fill = (c) => how.use((o) =>
        filled(Uint8Array, capacity, (...to) => (isText ? score : scoreTokens)(c, ...values, o, ...to, result), SCORE_SIZE));
      const tokens = scoresOf(await this.#alone(signal, fill));
      const { logprob, n_prompt, n_reused, is_greedy } = result;
      return { tokens, logprob, promptTokens: n_prompt, reusedTokens: n_reused, greedy: is_greedy !== 0 };
    } finally {
      how.close();
    }
  }

  /** The options in force: { nCtx, nSeq, nBatch, nThreads, pageLength, pages, freePages, backend }. */
  get info() {
    return contextInfoOf(this[HANDLE].read("ember_context_info", infoGet));
  }

  /** Bytes that the context takes, and its model: { file, weights, kv, workspace }; the file's mapping is read again where need be. */
  get memory() {
    return memoryOf(this[HANDLE].read("ember_memory", memoryGet));
  }

  /**
   * What the context has run, and how many milliseconds that took, since it was made or resetTimings: { loadMs, prefillTokens, prefillMs,
   * decodeTokens, decodeMs, embedTokens, embedMs, replayTokens, replayMs }. Prefill is prompts, decode tokens one by one, replay tokens that
   * were run once more for recurrent layers; loadMs is the model's loading.
   */
  get timings() {
    const raw = this[HANDLE].read("ember_timings", timingsGet);
    const counted = ["prefill", "decode", "embed", "replay"].flatMap((what) => [
      [`${what}Tokens`, Number(raw[`n_${what}`])],
      [`${what}Ms`, Number(raw[`${what}_ns`]) / 1e6],
    ]);
    return { loadMs: Number(raw.load_ns) / 1e6, ...Object.fromEntries(counted) };
  }

  /** Sets the counters of timings to 0; loadMs stays. */
  resetTimings() {
    this[HANDLE].call(timingsReset);
  }

  /** Frees the context, once what is running with it has ended. */
  close() {
    super.close();
    this.#model.close();
  }
}

/** Tokens, and other numbers of 32 bits, for a function that takes a pointer and their number. */
function numbered(list) {
  if (typeof list?.[Symbol.iterator] !== "function") throw refused(`a text or tokens are needed, not ${list}`);
  const all = list instanceof Uint32Array ? list : Uint32Array.from(list, (n) => number("a token", n));
  return [all, all.length];
}

/** What ember_token_scores say, which lie one after the other. */
function scoresOf(raw) {
  const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
  const isLittle = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
  return Array.from({ length: raw.length / SCORE_SIZE }, (_, i) => ({
    token: view.getUint32(i * SCORE_SIZE, isLittle),
    logprob: view.getFloat32(i * SCORE_SIZE + 4, isLittle),
    rank: view.getUint32(i * SCORE_SIZE + 8, isLittle),
  }));
}
