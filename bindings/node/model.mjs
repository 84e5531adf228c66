// Models: files that are loaded, and what they say.
import { ChatParser } from "./chat_parser.mjs";
import { Context } from "./context.mjs";
import { Engine } from "./engine.mjs";
import {
  Callback, Closing, HANDLE, Handle, Owner, call, callAsync, made, memoryOf, read, refused, textFrom, tokenOf, tokensOf, useAll, utf8,
} from "./native.mjs";
import { APPLY, CONTEXT, Cancel, MODEL, POOLINGS, chatOptions, contextOptions, isSet, modelOptions, only, size } from "./options.mjs";
import { Sampler } from "./sampler.mjs";
import { Tokenizer } from "./tokenizer.mjs";

const LOADED = "void *options, _Out_ void **out";
const load = callAsync("ember_model_load", `uint8_t *path, size_t n, ${LOADED}`);
const loadFd = callAsync("ember_model_load_fd", `int32_t fd, uint64_t offset, uint64_t n, ${LOADED}`);
const loadBuffer = callAsync("ember_model_load_buffer", `uint8_t *data, size_t n, ${LOADED}`);
const loadBorrowed = callAsync(
  "ember_model_load_borrowed",
  `uint8_t *data, size_t n, ember_release_callback *release, void *user_data, ${LOADED}`,
);
const retain = call.returning("void *", "ember_model_retain", "void *model");
const setToken = call("ember_model_options_set_cancel_token", "void *options, void *token");
const setProgress = call("ember_model_options_set_progress", "void *options, ember_progress_callback *callback, void *user_data");
const memoryEstimate = call(
  "ember_memory_estimate",
  "uint8_t *path, size_t n, void *model_options, void *context_options, _Inout_ ember_memory *out",
);
const BUFFER = "uint8_t *buffer, size_t capacity, _Out_ size_t *needed";
const TOKENS = "uint32_t *tokens, size_t capacity, _Out_ size_t *needed";
const inspect = call("ember_model_inspect", `uint8_t *path, size_t n, ${BUFFER}`);
const applyTemplate = call("ember_chat_apply_template", `void *model, uint8_t *messages, size_t n, void *options, ${BUFFER}`);
const tokenizeChat = call("ember_chat_tokenize", `void *model, uint8_t *messages, size_t n, void *options, ${TOKENS}`);
const tokenize = call("ember_model_tokenize", `void *model, uint8_t *text, size_t n, bool add_special, bool parse_special, ${TOKENS}`);
const chatTemplate = call("ember_model_chat_template", `void *model, uint8_t *name, size_t n, ${BUFFER}`);
const infoGet = call("ember_model_info_get", "void *model, _Inout_ ember_model_info *info");
const memoryGet = call("ember_model_memory", "void *model, _Inout_ ember_memory *out");
const isa = call.returning("const char *", "ember_model_isa", "void *model");
const labelCount = call("ember_model_label_count", "void *model, _Out_ size_t *out");
const label = call("ember_model_label", `void *model, size_t index, ${BUFFER}`);

const metaCount = call("ember_model_meta_count", "void *model, _Out_ size_t *out");
const metaKey = call("ember_model_meta_key", `void *model, size_t index, ${BUFFER}`);
const KEY = "void *model, uint8_t *key, size_t n";
const metaType = call("ember_model_meta_type", `${KEY}, _Out_ uint32_t *out`);
const metaString = call("ember_model_meta_string", `${KEY}, ${BUFFER}`);
const metaUnsigned = call("ember_model_meta_u64", `${KEY}, _Out_ uint64_t *out`);
const metaSigned = call("ember_model_meta_i64", `${KEY}, _Out_ int64_t *out`);
const metaFloat = call("ember_model_meta_f64", `${KEY}, _Out_ double *out`);
const metaBool = call("ember_model_meta_bool", `${KEY}, _Out_ bool *out`);
const metaArray = call("ember_model_meta_array", `${KEY}, _Out_ uint32_t *type, _Out_ size_t *n_elements`);
const ELEMENT = `${KEY}, size_t index`;
const elementString = call("ember_model_meta_array_string", `${ELEMENT}, ${BUFFER}`);
const elementUnsigned = call("ember_model_meta_array_u64", `${ELEMENT}, _Out_ uint64_t *out`);
const elementSigned = call("ember_model_meta_array_i64", `${ELEMENT}, _Out_ int64_t *out`);
const elementFloat = call("ember_model_meta_array_f64", `${ELEMENT}, _Out_ double *out`);
const elementBool = call("ember_model_meta_array_bool", `${ELEMENT}, _Out_ bool *out`);

// Types of GGUF's by their numbers, as what reads them.
const FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9, UINT64 = 10, FLOAT64 = 12;
const readerOf = (type, [string, unsigned, signed, float, bool]) =>
  ({ [STRING]: string, [UINT64]: unsigned, [FLOAT32]: float, [FLOAT64]: float, [BOOL]: bool })[type] ?? signed;
const ONE = [metaString, metaUnsigned, metaSigned, metaFloat, metaBool];
const OF_ARRAY = [elementString, elementUnsigned, elementSigned, elementFloat, elementBool];

// Bytes that models use where they are, until the library gives them back.
const lent = new Set();

/** A model: immutable, for any number of contexts, which keep it. */
export class Model extends Owner {
  /**
   * Loads a GGUF file or a folder of Hugging Face, given its path. Also loads a GGUF file given its bytes (a Uint8Array) or { fd, offset =
   * 0, length = 0 }, a part of an open file, to its end where length is 0. The model copies bytes. With `borrow` it uses them where they
   * are; they must neither change nor be transferred until `released` is called. `signal` (an AbortSignal) ends the loading, and `progress`
   * gets how far it is, from 0 to 1; false ends it. Other options: mmap, isa, pack, lock, checkTensors, memoryLimit, metadata.
   */
  static async load(source, { signal, progress, borrow = false, released, ...rest } = {}) {
    only(rest, "Model.load", ["signal", "progress", "borrow", "released", ...MODEL]);
    signal?.throwIfAborted();
    if (isSet(released) && !borrow) throw refused("released is for bytes that are borrowed: give borrow: true");
    if (borrow && !(source instanceof Uint8Array)) throw refused("borrow is for a Uint8Array");
    const closing = new Closing();
    let reporter;
    try {
      const cancel = closing.keep(new Cancel(signal));
      reporter = isSet(progress) && closing.keep(new Callback("ember_progress_callback", 1, (done) => (progress(done) === false ? 1 : 0)));
      const options = closing.keep(modelOptions(rest));
      cancel.handle.use((t) => options.call(setToken, t));
      if (reporter) options.call(setProgress, reporter.pointer, null);
      const pointer = await (borrow ? loadLent(source, released, options) : loadOf(source, options));
      return new Model(new Handle("model", pointer, "ember_model_release"));
    } catch (error) {
      if (reporter) reporter.check();
      throw error.code === "CANCELLED" && signal?.aborted ? signal.reason : error;
    } finally {
      closing.close();
    }
  }

  /** What the header of a model's file says: an object with all metadata and whether the model would load (ember.h). No weight is read. */
  static inspect(path) {
    return JSON.parse(textFrom(inspect, 8192, ...utf8(path)));
  }

  /** What loading a model and making a context would take, without doing it, as Context.memory; options are those of both. */
  static estimateMemory(path, options = {}) {
    only(options, "estimateMemory", [...CONTEXT, ...MODEL.filter((name) => !CONTEXT.includes(name))]);
    const closing = new Closing();
    try {
      const how = [closing.keep(modelOptions(options)), closing.keep(contextOptions(options))];
      return memoryOf(useAll(how, (m, c) => read("ember_memory", memoryEstimate, ...utf8(path), m, c)));
    } finally {
      closing.close();
    }
  }

  /** Another reference to the model, to be closed by itself. */
  retained() {
    return new Model(new Handle("model", this.use(retain), "ember_model_release"));
  }

  /** An engine, which runs many requests together: { nParallel, maxQueue (how many may wait), sharePrefixes } and options of context. */
  engine(options = {}) {
    return Engine.of(this, options);
  }

  /** The model's tokenizer, which it may outlive. */
  get tokenizer() {
    return Tokenizer.of(this);
  }

  /** A sampler with these stages, which may look tokens up in the model. */
  sampler(options = {}) {
    return new Sampler(options, this);
  }

  /** A sampler with the stages that the model's file proposes; an EmberError with the code "NOT_FOUND" where it proposes none. */
  proposedSampler({ seed, ...rest } = {}) {
    only(rest, "proposedSampler", ["seed"]);
    return Sampler.proposedBy(this, seed);
  }

  /** Reads a reply to `prompt`, which applyChatTemplate gave, or "", with the same options and toolChoice and parallelCalls. */
  chatParser(prompt, options = {}) {
    return ChatParser.of(this, prompt, options);
  }

  /**
   * The model's dimensions: { parameters, fileSize, vocabularySize, trainedContext, embeddingLength, vectorLength, prompts, layers, heads,
   * kvHeads, headLength, feedForwardLength, experts, expertsUsed, bos, eos, eot, unk, pad, hasTokenizer, isCausal, pooling, hasChatTemplate }.
   * A text's vector has vectorLength numbers, a token's embeddingLength; prompts is how many prompts for texts to be embedded there are.
   */
  get info() {
    const raw = this[HANDLE].read("ember_model_info", infoGet);
    return {
      parameters: Number(raw.n_params),
      fileSize: Number(raw.file_size),
      vocabularySize: raw.n_vocab,
      trainedContext: raw.n_ctx_train,
      embeddingLength: raw.n_embd,
      vectorLength: raw.n_embd_out,
      prompts: raw.n_prompts,
      layers: raw.n_layer,
      heads: raw.n_head,
      kvHeads: raw.n_head_kv,
      headLength: raw.head_dim,
      feedForwardLength: raw.n_ff,
      experts: raw.n_expert,
      expertsUsed: raw.n_expert_used,
      bos: tokenOf(raw.bos_token),
      eos: tokenOf(raw.eos_token),
      eot: tokenOf(raw.eot_token),
      unk: tokenOf(raw.unk_token),
      pad: tokenOf(raw.pad_token),
      hasTokenizer: raw.has_tokenizer !== 0,
      isCausal: raw.causal !== 0,
      pooling: POOLINGS[raw.pooling + 1],
      hasChatTemplate: raw.has_chat_template !== 0,
    };
  }

  /** Bytes that the model takes, nothing of contexts, as Context.memory. */
  get memory() {
    return memoryOf(this[HANDLE].read("ember_memory", memoryGet));
  }

  /** The instruction-set level that the model's contexts compute with, "avx512" for example. */
  get isa() {
    return this.use(isa);
  }

  /** All keys of the model's metadata, in the order of the file. */
  get metadataKeys() {
    return Array.from({ length: Number(this[HANDLE].made(metaCount)) }, (_, i) => this[HANDLE].text(metaKey, 64, i));
  }

  /**
   * The value of a key of the model's metadata: a text, a boolean, a number (a BigInt where a number is not exact), or an array of these. A
   * key that is not there is an EmberError with the code "NOT_FOUND".
   */
  metadata(key) {
    const from = utf8(key);
    return this.use((m) => {
      const value = (reader, ...at) =>
        reader === metaString || reader === elementString ? textFrom(reader, 128, m, ...from, ...at) : made(reader, m, ...from, ...at);
      const type = made(metaType, m, ...from);
      if (type !== ARRAY) return value(readerOf(type, ONE));
      const [elements, n] = [[0], [0]];
      metaArray(m, ...from, elements, n);
      if (elements[0] === ARRAY) throw refused(`the key ${key} is an array of arrays, whose elements cannot be read`);
      const reader = readerOf(elements[0], OF_ARRAY);
      return Array.from({ length: Number(n[0]) }, (_, i) => value(reader, i));
    });
  }

  /** What Context.classify scores, in the order of the scores. */
  get labels() {
    return Array.from({ length: Number(this[HANDLE].made(labelCount)) }, (_, i) => this[HANDLE].text(label, 64, i));
  }

  /** The text of the model's chat template of this name, or of its default one. */
  chatTemplate(name = "") {
    return this[HANDLE].text(chatTemplate, 4096, ...utf8(name));
  }

  /**
   * The text of a conversation as the model was trained on it. Options: tools, variables, template, templateName, thinking, now (a Date),
   * addGenerationPrompt (whether it ends with what comes before an answer; true).
   */
  applyChatTemplate(messages, options = {}) {
    only(options, "applyChatTemplate", APPLY);
    return withChat(this, messages, options, (m, o, text) => textFrom(applyTemplate, 2 * text[1] + 256, m, ...text, o));
  }

  /** Its tokens, a Uint32Array: no text of a message or tool can spell a control token. */
  tokenizeChat(messages, options = {}) {
    only(options, "tokenizeChat", APPLY);
    return withChat(this, messages, options, (m, o, text) => tokensOf(tokenizeChat, text[1] + 256, m, ...text, o));
  }

  /** The tokens of a text, a Uint32Array. */
  tokenize(text, { addSpecial = true, parseSpecial = false, ...rest } = {}) {
    only(rest, "tokenize", ["addSpecial", "parseSpecial"]);
    const bytes = utf8(text);
    return this[HANDLE].tokens(tokenize, bytes[1] + 8, ...bytes, addSpecial, parseSpecial);
  }

  /**
   * A context: the text that is worked on. `nCtx`: its positions; `nThreads`; `nSeq`: how many sequences, for completions. Other options:
   * nBatch, workerCpus, kvType, kType, vType, backend, kvLimit, keepPrefixes, keepAllPositions, nSnapshots, snapshotDistance, memoryLimit.
   */
  context(options = {}) {
    return Context.of(this, options);
  }
}

/** Loads what Model.load is given. */
function loadOf(source, options) {
  if (typeof source === "string") return options.use((o) => made(load, ...utf8(source), o));
  if (source instanceof Uint8Array) return options.use((o) => made(loadBuffer, source, source.length, o));
  const { fd, offset = 0, length = 0, ...rest } = source ?? {};
  only(rest, "Model.load", ["fd", "offset", "length"]);
  if (!Number.isInteger(fd)) throw refused("give a path, a Uint8Array, or an object with an fd");
  return options.use((o) => made(loadFd, fd, size("offset", offset), size("length", length), o));
}

/** Loads bytes where they are. */
async function loadLent(bytes, released, options) {
  const callback = new Callback("ember_release_callback", undefined, () => {
    lent.delete(callback);
    // Not while it is called.
    setImmediate(() => {
      callback.close();
      released?.();
    });
  });
  callback.bytes = bytes;
  lent.add(callback);
  try {
    return await options.use((o) => made(loadBorrowed, bytes, bytes.length, callback.pointer, null, o));
  } catch (error) {
    lent.delete(callback);
    callback.close();
    throw error;
  }
}

function withChat(model, messages, options, f) {
  const how = chatOptions(options);
  try {
    return model.use((m) => how.use((o) => f(m, o, utf8(JSON.stringify(messages)))));
  } finally {
    how.close();
  }
}
