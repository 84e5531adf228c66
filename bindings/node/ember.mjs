// Ember for Node: language models on the CPU, inside the process, without blocking the event loop. ember.d.ts describes all of it.
export { ChatParser } from "./chat_parser.mjs";
export { Constraint } from "./constraint.mjs";
export { ALL_SEQUENCES, Context } from "./context.mjs";
export { Conversation } from "./conversation.mjs";
export { Engine } from "./engine.mjs";
export { buildInfo, hasFeature, setLog, version } from "./library.mjs";
export { Model } from "./model.mjs";
export { EmberError } from "./native.mjs";
export { Sampler } from "./sampler.mjs";
export { Tokenizer } from "./tokenizer.mjs";
