// Continues a prompt; the text is printed as it comes. Needs koffi (npm install), one call a token.
//
//   EMBER_LIBRARY=/path/libember.so node generate.mjs -m MODEL -p PROMPT -n N [--temp T] [--top-k K] [--top-p P] [--seed S]
import { parseArgs } from "node:util";
import koffi from "koffi";

const { values: options } = parseArgs({
  options: {
    model: { type: "string", short: "m", default: "examples/models/ember-tales.gguf" },
    prompt: { type: "string", short: "p", default: "The sea was calm, and the moon" },
    tokens: { type: "string", short: "n", default: "128" },
    temp: { type: "string", default: "0.8" },
    "top-k": { type: "string", default: "40" },
    "top-p": { type: "string", default: "0.95" },
    seed: { type: "string", default: String(Date.now() >>> 0) },
  },
});

const library = koffi.load(process.env.EMBER_LIBRARY ?? "libember.so");
const errorMessage = library.func("const char *ember_error_message(void *error)");
const errorFree = library.func("void ember_error_free(void *error)");

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
const EVENT_END = 2;

// A function that returns an ember_status and takes an ember_error ** at its end; it throws the library's sentence.
function call(name, parameters) {
  const raw = library.func(`int32_t ${name}(${parameters}, _Out_ void **err)`);
  return (...values) => {
    const error = [null];
    if (raw(...values, error) !== 0) {
      const sentence = errorMessage(error[0]);
      errorFree(error[0]);
      throw new Error(sentence);
    }
  };
}

// The handle that a function writes to its last argument but the error.
function made(name, parameters, ...values) {
  const out = [null];
  call(name, parameters)(...values, out);
  return out[0];
}

const frees = [];
function owned(handle, free) {
  frees.unshift(() => library.func(`void ${free}(void *handle)`)(handle));
  return handle;
}

try {
  const path = Buffer.from(options.model);
  const model = owned(
    made("ember_model_load", "uint8_t *path, size_t n, void *options, _Out_ void **out", path, path.length, null),
    "ember_model_release",
  );
  const context = owned(made("ember_context_new", "void *model, void *options, _Out_ void **out", model, null), "ember_context_free");
  const sampler = owned(made("ember_sampler_new", "uint64_t seed, _Out_ void **out", BigInt(options.seed)), "ember_sampler_free");
  call("ember_sampler_add_top_k", "void *sampler, uint32_t k")(sampler, Number(options["top-k"]));
  call("ember_sampler_add_top_p", "void *sampler, float p")(sampler, Number(options["top-p"]));
  call("ember_sampler_add_temperature", "void *sampler, float t")(sampler, Number(options.temp));
  const how = owned(made("ember_generate_options_new", "_Out_ void **out"), "ember_generate_options_free");
  call("ember_generate_options_set_max_tokens", "void *options, uint32_t n")(how, Number(options.tokens));
  const prompt = Buffer.from(options.prompt);
  const generator = owned(
    made(
      "ember_generator_new",
      "void *context, uint8_t *prompt, size_t n, void *options, void *sampler, _Out_ void **out",
      context, prompt, prompt.length, how, sampler,
    ),
    "ember_generator_free",
  );

  process.stdout.write(prompt);
  const next = call("ember_generator_next", "void *generator, _Inout_ ember_event *event");
  const event = { struct_size: koffi.sizeof("ember_event"), kind: 0 };
  while (event.kind !== EVENT_END) {
    next(generator, event);
    // Whole code points, so each piece can go out as it comes.
    if (event.text_len > 0) process.stdout.write(Buffer.from(koffi.decode(event.text, "uint8_t", event.text_len)));
  }
  process.stdout.write("\n");
} catch (refusal) {
  console.error(refusal.message);
  process.exitCode = 1;
} finally {
  for (const free of frees) free();
}
