// Constraints: what a text has to follow.
import { Handle, Owner, call, callAsync, made, refused, textArrays, useAll, utf8 } from "./native.mjs";
import { REPLY, boolSetter, chatOptions, number, numberSetter, only, optionsMaker, size } from "./options.mjs";

const LIMITS = ["source", "grammar", "compile", "mask", "items", "states"];
const addText = call("ember_constraint_options_add_trigger_text", "void *options, uint8_t *text, size_t n");
const addToken = call("ember_constraint_options_add_trigger_token", "void *options, uint32_t token");
const setLimit = call("ember_constraint_options_set_limit", "void *options, int32_t limit, uint64_t value");
const list = (name, add) => (options, all) => {
  if (!Array.isArray(all)) throw refused(`${name} must be an array`);
  all.forEach((one) => add(options, one));
};
const setters = {
  whitespace: numberSetter("ember_constraint_options_set_whitespace"),
  repeat: boolSetter("ember_constraint_options_set_repeat"),
  triggers: list("triggers", (options, text) => addText(options, ...utf8(text))),
  triggerTokens: list("triggerTokens", (options, token) => addToken(options, number("triggerTokens", token))),
  limits: (options, limits) => {
    only(limits, "limits", LIMITS);
    for (const [name, n] of Object.entries(limits)) setLimit(options, LIMITS.indexOf(name), size(`limits.${name}`, n));
  },
};
const constraintOptions = optionsMaker("constraint", setters);
const ofText = (name) => callAsync(name, "void *model, uint8_t *text, size_t n, void *options, _Out_ void **out");
const jsonSchema = ofText("ember_constraint_new_json_schema");
const jsonObject = callAsync("ember_constraint_new_json_object", "void *model, void *options, _Out_ void **out");
const regex = ofText("ember_constraint_new_regex");
const lark = ofText("ember_constraint_new_lark");
const choices = callAsync(
  "ember_constraint_new_choices",
  "void *model, uint8_t **texts, size_t *lengths, size_t n, void *options, _Out_ void **out",
);
const chat = callAsync("ember_chat_constraint", "void *model, void *options, uint8_t *prompt, size_t n, _Out_ void **out");

/**
 * What a text has to follow, compiled for the tokens of a model: the option `constraint` of a generation. It is made once and used by many
 * generations of the model. Ember refuses what it cannot enforce: an EmberError names it. Making one runs on a thread of its own.
 *
 * Options: whitespace is the most characters between two parts of JSON. triggers (texts) and triggerTokens: the constraint begins after the
 * first of them. repeat: the text is free again after the constraint's end, until the next trigger. limits are bounds on work and memory
 * (ember_constraint_limit): { source, grammar, compile, mask, items, states }.
 */
export class Constraint extends Owner {
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
    return make(model, options, (m, o) => made(choices, m, ...textArrays(texts), o));
  }

  /**
   * What holds the calls of a reply to the schemas of their tools, for a promise; undefined where there is nothing to hold: without tools,
   * say. `prompt` is what applyChatTemplate gave with the same options, which are those of a conversation: tools, toolChoice and so on. For
   * generations of one's own; a conversation does this by itself.
   */
  static async chat(model, { prompt = "", ...options } = {}) {
    only(options, "Constraint.chat", ["prompt", ...REPLY]);
    const how = chatOptions(options);
    try {
      const pointer = await useAll([model, how], (m, o) => made(chat, m, o, ...utf8(prompt)));
      return pointer === null ? undefined : new Constraint(new Handle("constraint", pointer, "ember_constraint_free"));
    } finally {
      how.close();
    }
  }
}

async function make(model, options = {}, create) {
  only(options, "a constraint", Object.keys(setters));
  const how = constraintOptions(options);
  try {
    return new Constraint(new Handle("constraint", await useAll([model, how], create), "ember_constraint_free"));
  } finally {
    how.close();
  }
}
