// Samplers: stages that narrow or reweigh the candidates, and a random draw.
import { Callback, HANDLE, Handle, Owner, PROGRESS, call, made, needs, numbersAt, putNumbers, refused, textArrays } from "./native.mjs";
import { GENERATION, isSet, number, only, real, truth } from "./options.mjs";

const samplerNew = call("ember_sampler_new", "uint64_t seed, _Out_ void **out");
const ofModel = call("ember_model_sampler", "void *model, uint64_t seed, _Out_ void **out");
const clone = call("ember_sampler_clone", "void *sampler, _Out_ void **out");
const sample = call("ember_sampler_sample", "void *sampler, float *logits, size_t n, _Out_ uint32_t *out");
const accept = call("ember_sampler_accept", "void *sampler, uint32_t token");
const reset = call("ember_sampler_reset", "void *sampler");
const seedOf = call("ember_sampler_seed", "void *sampler, _Out_ uint64_t *out");
const progress = call("ember_sampler_progress", "void *sampler, _Out_ int32_t *out");

const addConstraint = call("ember_sampler_add_constraint", "void *sampler, void *constraint");
const addBias = call("ember_sampler_add_bias", "void *sampler, uint32_t *tokens, float *biases, size_t n");
const addAllow = call("ember_sampler_add_allow", "void *sampler, uint32_t *tokens, size_t n");
const addDeny = call("ember_sampler_add_deny", "void *sampler, uint32_t *tokens, size_t n");
const addPenalties = call("ember_sampler_add_penalties", "void *sampler, uint32_t n, float repeat, float frequency, float presence");
const generatedOnly = call("ember_sampler_set_penalties_generated_only", "void *sampler, bool only");
const addDry = call(
  "ember_sampler_add_dry",
  "void *sampler, void *model, float multiplier, float base, uint32_t allowed, uint32_t last, uint8_t **breakers, size_t *lengths, size_t n",
);
const addXtc = call("ember_sampler_add_xtc", "void *sampler, float probability, float threshold");
const addDynamicTemperature = call("ember_sampler_add_dynamic_temperature", "void *sampler, float t, float range, float exponent");
const addInfill = call("ember_sampler_add_infill", "void *sampler, void *model");
const addCallback = call("ember_sampler_add_callback", "void *sampler, ember_candidates_callback *callback, void *user_data");
const addGreedy = call("ember_sampler_add_greedy", "void *sampler");
const addMirostat = call("ember_sampler_add_mirostat", "void *sampler, float tau, float eta");
const addMirostat1 = call("ember_sampler_add_mirostat_1", "void *sampler, float tau, float eta, uint32_t m");
const addAdaptiveP = call("ember_sampler_add_adaptive_p", "void *sampler, float target, float decay");

/** Takes an options object apart, whose names and defaults these are; undefined has no default. */
function fields(what, given, defaults) {
  only(given, what, Object.keys(defaults));
  const all = { ...defaults };
  for (const [name, value] of Object.entries(given)) if (isSet(value)) all[name] = value;
  for (const [name, value] of Object.entries(all)) {
    if (value === undefined) throw refused(`${what} needs ${name}`);
    if (name !== "breakers") (defaults[name] === false ? truth : real)(`${what}.${name}`, value);
  }
  return all;
}

const tokenList = (what, tokens) => {
  if (!Array.isArray(tokens) && !ArrayBuffer.isView(tokens)) throw refused(`${what} must be an array of tokens`);
  return Uint32Array.from(tokens, (token) => number(what, token));
};
const listed = (what, add) => (sampler, tokens) => {
  const all = tokenList(what, tokens);
  add(sampler, all, all.length);
};

const plain = (f, type, check) => {
  const add = call(f, `void *sampler, ${type} value`);
  return (sampler, value, _model, _keep, name) => add(sampler, check(name, value));
};

/** The model that a stage looks tokens up in. */
function modelFor(stage, model) {
  if (typeof model?.use !== "function") throw refused(`${stage} needs a model: make the sampler with model.sampler(options)`);
  return model;
}

// The stages in the order in which they are applied. A stage gets the sampler, its option, the model, if there is one, and where to keep
// callbacks.
const stages = {
  constraint: (sampler, constraint) => {
    if (typeof constraint.use !== "function") throw refused("constraint must be a Constraint");
    constraint.use((c) => addConstraint(sampler, c));
  },
  logitBias: (sampler, biases) => {
    const pairs = biases instanceof Map ? [...biases] : Object.entries(biases).map(([token, bias]) => [Number(token), bias]);
    const wrong = pairs.find(([, bias]) => typeof bias !== "number");
    if (wrong) throw refused(`logitBias of token ${wrong[0]} must be a number, not ${wrong[1]}`);
    addBias(sampler, tokenList("logitBias", pairs.map(([token]) => token)), Float32Array.from(pairs, ([, bias]) => bias), pairs.length);
  },
  allow: listed("allow", addAllow),
  deny: listed("deny", addDeny),
  penalties: (sampler, given) => {
    const all = fields("penalties", given, { last: 64, repeat: 1, frequency: 0, presence: 0, generatedOnly: false });
    addPenalties(sampler, number("penalties.last", all.last), all.repeat, all.frequency, all.presence);
    generatedOnly(sampler, all.generatedOnly);
  },
  dry: (sampler, given, model) => {
    const all = fields("dry", given, { multiplier: 0.8, base: 1.75, allowedLength: 2, last: 1024, breakers: null });
    const breakers = all.breakers === null ? [null, null, 0] : textArrays(all.breakers);
    if (all.breakers?.length === 0) breakers.splice(0, 2, [Buffer.from(" ")], null); // none: an address, and no element
    const [allowed, last] = ["allowedLength", "last"].map((name) => number(`dry.${name}`, all[name]));
    modelFor("dry", model).use((m) => addDry(sampler, m, all.multiplier, all.base, allowed, last, ...breakers));
  },
  topNSigma: plain("ember_sampler_add_top_n_sigma", "float", real),
  topK: plain("ember_sampler_add_top_k", "uint32_t", number),
  typicalP: plain("ember_sampler_add_typical_p", "float", real),
  topP: plain("ember_sampler_add_top_p", "float", real),
  minP: plain("ember_sampler_add_min_p", "float", real),
  xtc: (sampler, given) => {
    const { probability, threshold } = fields("xtc", given, { probability: undefined, threshold: undefined });
    addXtc(sampler, probability, threshold);
  },
  temperature: plain("ember_sampler_add_temperature", "float", real),
  dynamicTemperature: (sampler, given) => {
    const all = fields("dynamicTemperature", given, { temperature: undefined, range: undefined, exponent: 1 });
    addDynamicTemperature(sampler, all.temperature, all.range, all.exponent);
  },
  infill: (sampler, on, model) => {
    if (on !== false) modelFor("infill", model).use((m) => addInfill(sampler, m));
  },
  candidates: (sampler, f, _, keep) => {
    if (typeof f !== "function") throw refused("candidates must be a function of tokens and logits");
    const callback = new Callback("ember_candidates_callback", 1, (tokens, logits, n) => {
      const count = Number(n);
      const numbers = numbersAt(logits, "float", count);
      f(numbersAt(tokens, "uint32_t", count), numbers);
      putNumbers(logits, "float", numbers);
      return 0;
    });
    keep(callback);
    addCallback(sampler, callback.pointer, null);
  },
  greedy: (sampler, on) => {
    if (on !== false) addGreedy(sampler);
  },
  mirostat: (sampler, given) => {
    const { tau, eta } = fields("mirostat", given, { tau: 5, eta: 0.1 });
    addMirostat(sampler, tau, eta);
  },
  mirostat1: (sampler, given) => {
    const { tau, eta, m } = fields("mirostat1", given, { tau: 5, eta: 0.1, m: 100 });
    addMirostat1(sampler, tau, eta, number("mirostat1.m", m));
  },
  adaptiveP: (sampler, given) => {
    const { target, decay } = fields("adaptiveP", given, { target: undefined, decay: 0.9 });
    addAdaptiveP(sampler, target, decay);
  },
};
const STAGES = Object.keys(stages);
// In a generation `constraint` is an option of its own.
const DRAWING = STAGES.filter((name) => name !== "constraint");
const SAMPLER = [...DRAWING, "stages", "seed"];

export const GENERATE = [...GENERATION, ...SAMPLER, "sampler"];

const SEED_RANDOM = 0xffffffffffffffffn;
function seedNumber(seed) {
  if (!isSet(seed)) return SEED_RANDOM;
  const n = typeof seed === "bigint" || Number.isInteger(seed) ? BigInt(seed) : -1n;
  if (n < 0n || n >= SEED_RANDOM) throw refused(`seed must be 0 to 2^64 - 2, not ${seed}`);
  return n;
}

/** The stages of options, [name, value] each: by their names in the order of `stages` above, or as the option `stages` lists them. */
function stagesOf(options) {
  const named = STAGES.filter((name) => isSet(options[name])).map((name) => [name, options[name]]);
  if (!isSet(options.stages)) return named;
  if (named.length > 0) throw refused(`give ${named[0][0]} among the stages: stages lists all of them`);
  return options.stages.map((stage, i) => {
    only(stage, `stages[${i}]`, STAGES);
    const entries = Object.entries(stage);
    if (entries.length !== 1) throw refused(`stages[${i}] must have one stage, and has ${entries.length}`);
    return entries[0];
  });
}

/** Functions that C calls as long as a sampler, a copy of it or a generation with it is there. */
class Callbacks {
  all = [];
  #owners = 1;

  share() {
    this.#owners++;
    return this;
  }

  check() {
    for (const one of this.all) one.check();
  }

  close() {
    if (--this.#owners === 0) for (const one of this.all) one.close();
  }
}

/**
 * Draws tokens. It keeps its random numbers and what it has accepted from one generation to the next; the option `sampler` takes it. One
 * generation at a time uses it. Options are the stages, and seed; ember.d.ts describes them.
 */
export class Sampler extends Owner {
  #callbacks;

  constructor(options = {}, model) {
    if (options instanceof Handle) {
      super(options);
      return;
    }
    only(options, "Sampler", [...SAMPLER, "constraint"]);
    const list = stagesOf(options);
    const callbacks = new Callbacks();
    const handle = new Handle("sampler", made(samplerNew, seedNumber(options.seed)), "ember_sampler_free", () => callbacks.close());
    super(handle);
    this.#callbacks = callbacks;
    try {
      for (const [name, value] of list) handle.use((s) => stages[name](s, value, model, (one) => callbacks.all.push(one), name));
    } catch (error) {
      handle.close();
      throw error;
    }
  }

  /** With the stages that a model's file proposes. */
  static proposedBy(model, seed) {
    const sampler = new Sampler(new Handle("sampler", model.use((m) => made(ofModel, m, seedNumber(seed))), "ember_sampler_free"));
    sampler.#callbacks = new Callbacks();
    return sampler;
  }

  /** Chooses a token from logits, a Float32Array whose index is the token. It accepts nothing. */
  sample(logits) {
    if (!(logits instanceof Float32Array)) throw refused("logits must be a Float32Array");
    try {
      return this[HANDLE].made(sample, logits, logits.length);
    } catch (error) {
      this.#callbacks.check();
      throw error;
    }
  }

  /** Tells the stages that look back that a token is part of the text now. */
  accept(token) {
    this[HANDLE].call(accept, number("token", token));
  }

  /** Starts over, as if it were new; the stages stay. */
  reset() {
    this[HANDLE].call(reset);
  }

  /** A copy: its stages and their state, its random numbers where they stand. */
  clone() {
    const callbacks = this.#callbacks.share();
    try {
      const copy = new Sampler(new Handle("sampler", this[HANDLE].made(clone), "ember_sampler_free", () => callbacks.close()));
      copy.#callbacks = callbacks;
      return copy;
    } catch (error) {
      callbacks.close();
      throw error;
    }
  }

  /** The seed of its random numbers, a BigInt. */
  get seed() {
    return BigInt(this[HANDLE].made(seedOf));
  }

  /** How far the text is that follows the constraint: "none", "waiting", "unfinished" or "complete". */
  get progress() {
    return PROGRESS[this[HANDLE].made(progress)];
  }

  /** For a generation, whose events may come after the sampler was closed. */
  lease(isOwn) {
    return new Lease(this, this.#callbacks.share(), isOwn);
  }
}

/** A sampler's use by a generation: C keeps what it needs of the sampler, and this its callbacks. */
class Lease {
  #sampler;
  #callbacks;
  #isOwn;

  constructor(sampler, callbacks, isOwn) {
    this.#sampler = sampler;
    this.#callbacks = callbacks;
    this.#isOwn = isOwn;
  }

  use(f) {
    return this.#sampler.use(f);
  }

  /** Throws what a callback of the sampler's threw. */
  check() {
    this.#callbacks.check();
  }

  get hasCallbacks() {
    return this.#callbacks.all.length > 0;
  }

  /** For a copy of what uses it: of a sampler that is its own, a copy. */
  again() {
    return this.#isOwn ? this.#sampler.clone().lease(true) : this.#sampler.lease(false);
  }

  close() {
    this.#callbacks.close();
    if (this.#isOwn) this.#sampler.close();
  }
}

/** The sampler that a generation's options ask for; none: greedy. */
export function samplerOf(options, model) {
  const names = SAMPLER.filter((name) => isSet(options[name]));
  if (!isSet(options.sampler)) {
    return names.length === 0 ? undefined : new Sampler(Object.fromEntries(names.map((name) => [name, options[name]])), model).lease(true);
  }
  if (names.length > 0) throw refused(`give ${names[0]} to the sampler: where there is one, it says how tokens are drawn`);
  return needs(Sampler, "sampler", options.sampler).lease(false);
}
