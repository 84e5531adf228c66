// Constraints: what a text has to follow.
import { EmberError, Handle, call, callAsync, made, utf8 } from "./native.mjs";
import { isSet, only, optionsHandle } from "./options.mjs";

const optionsNew = call("ember_constraint_options_new", "_Out_ void **out");
const addText = call("ember_constraint_options_add_trigger_text", "void *options, uint8_t *text, size_t n");
const addToken = call("ember_constraint_options_add_trigger_token", "void *options, uint32_t token");
const setters = {
  whitespace: call("ember_constraint_options_set_whitespace", "void *options, uint32_t n"),
  repeat: call("ember_constraint_options_set_repeat", "void *options, bool repeat"),
  triggers: (options, texts) => texts.forEach((text) => addText(options, ...utf8(text))),
  triggerTokens: (options, tokens) => tokens.forEach((token) => addToken(options, token)),
};
const ofText = (name) => callAsync(name, "void *model, uint8_t *text, size_t n, void *options, _Out_ void **out");
const jsonSchema = ofText("ember_constraint_new_json_schema");
const jsonObject = callAsync("ember_constraint_new_json_object", "void *model, void *options, _Out_ void **out");
const regex = ofText("ember_constraint_new_regex");
const lark = ofText("ember_constraint_new_lark");
const choices = callAsync(
  "ember_constraint_new_choices",
  "void *model, const char **texts, size_t *lengths, size_t n, void *options, _Out_ void **out",
);

/**
 * What a text has to follow, compiled for the tokens of a model: the option `constraint` of a generation. It is made once and used by
 * many generations of the model. What cannot be held to is an EmberError by name. Making one runs on a thread of its own.
 *
 * Options: whitespace (most characters between two parts of JSON), triggers (texts) and triggerTokens, behind the first of which the
 * constraint begins, and repeat, whether the text is free again behind its end, until the next trigger.
 */
export class Constraint {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  /** JSON that a JSON Schema describes, given as an object or as its text. */
  static jsonSchema(model, schema, options) {
    const text = utf8(typeof schema === "string" ? schema : JSON.stringify(schema));
    return make(model, options, (m, o) => made(jsonSchema, m, ...text, o));
  }

  /** A JSON object, whatever it holds. */
  static jsonObject(model, options) {
    return make(model, options, (m, o) => made(jsonObject, m, o));
  }

  /** What a regular expression matches as a whole, in the syntax of Rust's crate regex. */
  static regex(model, expression, options) {
    return make(model, options, (m, o) => made(regex, m, ...utf8(expression), o));
  }

  /** What a grammar in the syntax of Lark derives from its rule "start". */
  static lark(model, grammar, options) {
    return make(model, options, (m, o) => made(lark, m, ...utf8(grammar), o));
  }

  /** One of these texts. */
  static choices(model, texts, options) {
    const i = texts.findIndex((text) => text.includes("\0"));
    if (i >= 0) throw new EmberError(`choices[${i}] has a NUL`, "INVALID_ARGUMENT");
    return make(model, options, (m, o) => made(choices, m, texts, null, texts.length, o));
  }

  use(f) {
    return this.#handle.use(f);
  }

  /** Frees the constraint; generations that have it keep what they need. */
  close() {
    this.#handle.close();
  }
}

async function make(model, options = {}, create) {
  only(options, "a constraint", Object.keys(setters));
  for (const name of ["triggers", "triggerTokens"]) {
    if (isSet(options[name]) && !Array.isArray(options[name])) throw new EmberError(`${name} must be an array`, "INVALID_ARGUMENT");
  }
  const how = optionsHandle(optionsNew, "ember_constraint_options_free", options, setters);
  try {
    return new Constraint(new Handle("constraint", await model.use((m) => how.use((o) => create(m, o))), "ember_constraint_free"));
  } finally {
    how.close();
  }
}
