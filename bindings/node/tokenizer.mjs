// Tokenizers: a model's own, or one that is loaded alone.
import { Handle, call, callAsync, made, newStruct, utf8 } from "./native.mjs";
import { filled, only } from "./options.mjs";

const load = callAsync("ember_tokenizer_load", "uint8_t *path, size_t n, _Out_ void **out");
const loadBuffer = callAsync("ember_tokenizer_load_buffer", "uint8_t *data, size_t n, _Out_ void **out");
const ofModel = call("ember_model_tokenizer", "void *model, _Out_ void **out");
const infoGet = call("ember_tokenizer_info_get", "void *tokenizer, _Inout_ ember_tokenizer_info *info");
const TEXT = "void *tokenizer, uint8_t *text, size_t n, bool add_special, bool parse_special";
const tokenize = call("ember_tokenizer_tokenize", `${TEXT}, uint32_t *tokens, size_t capacity, _Out_ size_t *needed`);
const count = call("ember_tokenizer_count", `${TEXT}, _Out_ size_t *out`);
const detokenize = call(
  "ember_tokenizer_detokenize",
  "void *tokenizer, uint32_t *tokens, size_t n, bool render_special, uint8_t *buffer, size_t capacity, _Out_ size_t *needed",
);
const tokenBytes = call(
  "ember_tokenizer_token_bytes",
  "void *tokenizer, uint32_t token, uint8_t *buffer, size_t capacity, _Out_ size_t *needed",
);
const isControl = call("ember_tokenizer_token_is_control", "void *tokenizer, uint32_t token, _Out_ bool *out");
const isEog = call("ember_tokenizer_token_is_eog", "void *tokenizer, uint32_t token, _Out_ bool *out");
const fimPrompt = call(
  "ember_tokenizer_fim_prompt",
  "void *tokenizer, uint8_t *prefix, size_t n_prefix, uint8_t *suffix, size_t n_suffix, void *options, " +
    "uint32_t *tokens, size_t capacity, _Out_ size_t *needed",
);

const NO_TOKEN = 0xffffffff;
const handleOf = (pointer) => new Handle("tokenizer", pointer, "ember_tokenizer_release");

/** Turns text into tokens and back, for any number of contexts. */
export class Tokenizer {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  /**
   * Loads a tokenizer without a model, of a GGUF file, which need not have tensors, of a Hugging Face folder, or of a tokenizer.json; or,
   * given a Uint8Array, of the bytes of a GGUF file or of a tokenizer.json.
   */
  static async load(source) {
    if (typeof source === "string") return new Tokenizer(handleOf(await made(load, ...utf8(source))));
    return new Tokenizer(handleOf(await made(loadBuffer, source, source.length)));
  }

  /** That of a model, which it may outlive. */
  static of(model) {
    return new Tokenizer(handleOf(model.use((m) => made(ofModel, m))));
  }

  /**
   * What is known of the tokens: { vocabularySize, bos, eos, eot, unk, pad, addsBos, addsEos, hasChatTemplate, fimPrefix, fimSuffix,
   * fimMiddle }. Tokens that there are not are undefined.
   */
  get info() {
    const raw = newStruct("ember_tokenizer_info");
    this.#handle.use((t) => infoGet(t, raw));
    const token = (name) => (raw[`${name}_token`] === NO_TOKEN ? undefined : raw[`${name}_token`]);
    return {
      vocabularySize: raw.n_vocab,
      bos: token("bos"),
      eos: token("eos"),
      eot: token("eot"),
      unk: token("unk"),
      pad: token("pad"),
      addsBos: raw.add_bos !== 0,
      addsEos: raw.add_eos !== 0,
      hasChatTemplate: raw.has_chat_template !== 0,
      fimPrefix: token("fim_prefix"),
      fimSuffix: token("fim_suffix"),
      fimMiddle: token("fim_middle"),
    };
  }

  /** The tokens of a text, a Uint32Array: with those that texts begin with (addSpecial), without control tokens (parseSpecial). */
  tokenize(text, { addSpecial = true, parseSpecial = false, ...rest } = {}) {
    only(rest, "tokenize", ["addSpecial", "parseSpecial"]);
    const bytes = utf8(text);
    const fill = (buffer, needed) =>
      this.#handle.use((t) => tokenize(t, ...bytes, addSpecial, parseSpecial, buffer, buffer.length, needed));
    return filled(bytes[1] + 8, (n) => new Uint32Array(n), fill);
  }

  /** How many tokens tokenize would give. */
  count(text, { addSpecial = true, parseSpecial = false, ...rest } = {}) {
    only(rest, "count", ["addSpecial", "parseSpecial"]);
    const n = [0];
    this.#handle.use((t) => count(t, ...utf8(text), addSpecial, parseSpecial, n));
    return Number(n[0]);
  }

  /** The text of tokens, taken for the beginning of a text. `renderSpecial` writes control tokens instead of leaving them out. */
  detokenize(tokens, { renderSpecial = false, ...rest } = {}) {
    only(rest, "detokenize", ["renderSpecial"]);
    const all = Uint32Array.from(tokens);
    const fill = (buffer, needed) =>
      this.#handle.use((t) => detokenize(t, all, all.length, renderSpecial, buffer, buffer.length, needed));
    return Buffer.from(filled(8 * all.length + 8, (n) => new Uint8Array(n), fill)).toString();
  }

  /** The exact bytes of a token, perhaps a part of a code point. */
  bytes(token) {
    return filled(64, (n) => new Uint8Array(n), (buffer, needed) =>
      this.#handle.use((t) => tokenBytes(t, token, buffer, buffer.length, needed)));
  }

  /** Whether a token controls the model instead of being text. */
  isControl(token) {
    return this.#is(isControl, token);
  }

  /** Whether a token ends a generation. */
  isEndOfGeneration(token) {
    return this.#is(isEog, token);
  }

  #is(f, token) {
    const out = [false];
    this.#handle.use((t) => f(t, token, out));
    return out[0];
  }

  /** The tokens of a prompt that asks for what stands between two texts: for Context.generate. */
  fimPrompt(prefix, suffix) {
    const texts = [...utf8(prefix), ...utf8(suffix)];
    const fill = (buffer, needed) => this.#handle.use((t) => fimPrompt(t, ...texts, null, buffer, buffer.length, needed));
    return filled(texts[1] + texts[3] + 16, (n) => new Uint32Array(n), fill);
  }

  /** Gives the tokenizer back. */
  close() {
    this.#handle.close();
  }
}
