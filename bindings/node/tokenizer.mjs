// Tokenizers: a model's own, or one that is loaded alone.
import { HANDLE, Handle, Owner, call, callAsync, made, refused, tokenOf, utf8 } from "./native.mjs";
import { namedSetter, number, only, optionsMaker, textSetter } from "./options.mjs";

const load = callAsync("ember_tokenizer_load", "uint8_t *path, size_t n, _Out_ void **out");
const loadBuffer = callAsync("ember_tokenizer_load_buffer", "uint8_t *data, size_t n, _Out_ void **out");
const ofModel = call("ember_model_tokenizer", "void *model, _Out_ void **out");
const infoGet = call("ember_tokenizer_info_get", "void *tokenizer, _Inout_ ember_tokenizer_info *info");
const TEXT = "void *tokenizer, uint8_t *text, size_t n, bool add_special, bool parse_special";
const tokenize = call("ember_tokenizer_tokenize", `${TEXT}, uint32_t *tokens, size_t capacity, _Out_ size_t *needed`);
const tokenizeBytes = call("ember_tokenizer_tokenize_bytes", `${TEXT}, uint32_t *tokens, size_t capacity, _Out_ size_t *needed`);
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

const ORDER = { auto: 0, psm: 1, spm: 2, spm_joined: 3 };
const addFile = call("ember_fim_options_add_file", "void *options, uint8_t *name, size_t n, uint8_t *text, size_t m");
const fimSetters = {
  order: namedSetter(ORDER, "ember_fim_options_set_order"),
  repository: textSetter("ember_fim_options_set_repository"),
  file: textSetter("ember_fim_options_set_file"),
  files: (options, files) => {
    if (!Array.isArray(files)) throw refused("files must be an array of { name, text }");
    for (const { name, text } of files) addFile(options, ...utf8(name), ...utf8(text));
  },
};
const fimOptions = optionsMaker("fim", fimSetters);
const handleOf = (pointer) => new Handle("tokenizer", pointer, "ember_tokenizer_release");

/** Turns text into tokens and back, for any number of contexts. */
export class Tokenizer extends Owner {
  /**
   * Loads a tokenizer without a model, of a GGUF file, which need not have tensors, of a Hugging Face folder, or of a tokenizer.json. Given
   * a Uint8Array, it takes the bytes of a GGUF file or of a tokenizer.json.
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
   * fimMiddle, fimRepository, fimFile }. Tokens that there are not are undefined.
   */
  get info() {
    const raw = this[HANDLE].read("ember_tokenizer_info", infoGet);
    const token = (name) => tokenOf(raw[`${name}_token`]);
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
      fimRepository: token("fim_repository"),
      fimFile: token("fim_file"),
    };
  }

  /**
   * The tokens of a text, a Uint32Array: with those that texts begin with (addSpecial), without control tokens (parseSpecial). Bytes, a
   * Uint8Array, need not be UTF-8.
   */
  tokenize(text, { addSpecial = true, parseSpecial = false, ...rest } = {}) {
    only(rest, "tokenize", ["addSpecial", "parseSpecial"]);
    const isText = typeof text === "string";
    const bytes = isText ? utf8(text) : [text, text.length];
    return this[HANDLE].tokens(isText ? tokenize : tokenizeBytes, bytes[1] + 8, ...bytes, addSpecial, parseSpecial);
  }

  /** How many tokens tokenize would give. */
  count(text, { addSpecial = true, parseSpecial = false, ...rest } = {}) {
    only(rest, "count", ["addSpecial", "parseSpecial"]);
    return Number(this[HANDLE].made(count, ...utf8(text), addSpecial, parseSpecial));
  }

  /** The text of tokens, taken for the beginning of a text. `renderSpecial` writes control tokens instead of leaving them out. */
  detokenize(tokens, { renderSpecial = false, ...rest } = {}) {
    only(rest, "detokenize", ["renderSpecial"]);
    const all = Uint32Array.from(tokens);
    return this[HANDLE].text(detokenize, 8 * all.length + 8, all, all.length, renderSpecial);
  }

  /** The exact bytes of a token, perhaps a part of a code point. */
  bytes(token) {
    return this[HANDLE].bytes(tokenBytes, 64, number("token", token));
  }

  /** Whether a token controls the model instead of being text. */
  isControl(token) {
    return this[HANDLE].made(isControl, number("token", token));
  }

  /** Whether a token ends a generation. */
  isEndOfGeneration(token) {
    return this[HANDLE].made(isEog, number("token", token));
  }

  /**
   * The tokens of a prompt that asks for what stands between two texts: for Context.generate. Options: order ("auto", "psm", "spm",
   * "spm_joined"), repository and file (their names), files ([{ name, text }], which stand before).
   */
  fimPrompt(prefix, suffix, options = {}) {
    only(options, "fimPrompt", Object.keys(fimSetters));
    const texts = [...utf8(prefix), ...utf8(suffix)];
    const how = fimOptions(options);
    try {
      return how.use((o) => this[HANDLE].tokens(fimPrompt, texts[1] + texts[3] + 16, ...texts, o));
    } finally {
      how.close();
    }
  }
}
