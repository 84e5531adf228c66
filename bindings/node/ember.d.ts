// Types of Ember for Node. Where they say nothing, README.md and the sources do.
/// <reference lib="esnext.disposable" />
/// <reference lib="es2018.asyncgenerator" />

/** What the library refuses, in its words. `code` is the status of ember.h without EMBER_E_, or "CLOSED". */
export class EmberError extends Error {
  constructor(message: string, code: ErrorCode);
  readonly code: ErrorCode;
}

export type ErrorCode =
  | "INVALID_ARGUMENT" | "IO" | "FORMAT" | "UNSUPPORTED" | "NOMEM" | "CONTEXT_FULL" | "BUSY" | "UTF8" | "BUFFER_TOO_SMALL" | "NOT_FOUND"
  | "INTERNAL" | "CANCELLED" | "QUEUE_FULL" | "CLOSED";

/** Tokens, in an array or a Uint32Array. */
export type Tokens = ArrayLike<number> & Iterable<number>;

/** What belongs to the library until it is closed, or forgotten. It is not freed while a call uses it. */
interface Closable {
  close(): void;
  /** For `using`; the symbol is Symbol.dispose. */
  [Symbol.dispose](): void;
}

export interface Signal {
  /** Ends the call; its reason is thrown. */
  signal?: AbortSignal;
}

// Models

export type MetadataValue = string | boolean | number | bigint | MetadataValue[];

export interface ModelOptions {
  /** Whether files are mapped (true) or read into memory. */
  mmap?: boolean;
  /** The highest instruction-set level to use, such as "avx2". */
  isa?: string;
  /** Which matrices are packed for this machine's vector instructions. */
  pack?: "auto" | "never" | "always";
  /** Whether the weights are kept in memory whatever else the system is short of. */
  lock?: boolean;
  /** Whether every number of every tensor is looked at. */
  checkTensors?: boolean;
  /** Most bytes of the model and all its contexts; 0: any. */
  memoryLimit?: number;
  /** Values in place of those of the file. 1 is stored as an integer, { float: 1 } is not. */
  metadata?: Record<string, string | boolean | number | bigint | { float: number }>;
}

export interface LoadOptions extends ModelOptions, Signal {
  /** Gets how far the loading is, from 0 to 1; false ends it. */
  progress?: (done: number) => boolean | void;
  /** Uses the bytes where they are: they must neither change nor be transferred until `released` is called. */
  borrow?: boolean;
  /** Called when nothing needs the borrowed bytes any more. */
  released?: () => void;
}

export interface ModelInfo {
  parameters: number;
  fileSize: number;
  vocabularySize: number;
  trainedContext: number;
  embeddingLength: number;
  vectorLength: number;
  prompts: number;
  layers: number;
  heads: number;
  kvHeads: number;
  headLength: number;
  feedForwardLength: number;
  experts: number;
  expertsUsed: number;
  bos: number | undefined;
  eos: number | undefined;
  eot: number | undefined;
  unk: number | undefined;
  pad: number | undefined;
  hasTokenizer: boolean;
  isCausal: boolean;
  pooling: "auto" | "none" | "mean" | "cls" | "last" | "rank";
  hasChatTemplate: boolean;
}

/** Bytes of a model and a context. */
export interface Memory {
  file: number;
  weights: number;
  kv: number;
  workspace: number;
}

/** What ember_model_inspect says. */
export interface Inspection {
  path: string;
  file_size: number;
  n_tensors: number;
  n_params: number;
  architecture: string | null;
  name: string | null;
  tokenizer: string | null;
  chat_template: boolean;
  types: unknown;
  metadata: Record<string, unknown>;
  supported: boolean;
  dimensions?: Record<string, unknown>;
  reason?: string;
}

export class Model implements Closable {
  private constructor();
  /** Loads a file or a folder by its path, a file's bytes, or a part of an open file. */
  static load(source: string | { fd: number; offset?: number; length?: number }, options?: Omit<LoadOptions, "borrow" | "released">): Promise<Model>;
  static load(source: Uint8Array, options?: LoadOptions): Promise<Model>;
  static inspect(path: string): Inspection;
  static estimateMemory(path: string, options?: ContextOptions & ModelOptions): Memory;
  readonly info: ModelInfo;
  readonly memory: Memory;
  readonly isa: string;
  readonly labels: string[];
  readonly tokenizer: Tokenizer;
  readonly metadataKeys: string[];
  metadata(key: string): MetadataValue;
  chatTemplate(name?: string): string;
  applyChatTemplate(messages: Message[], options?: TemplateOptions): string;
  tokenizeChat(messages: Message[], options?: TemplateOptions): Uint32Array;
  tokenize(text: string, options?: TokenizeOptions): Uint32Array;
  context(options?: ContextOptions): Context;
  engine(options?: EngineOptions): Engine;
  sampler(options?: SamplerOptions): Sampler;
  proposedSampler(options?: { seed?: number | bigint }): Sampler;
  chatParser(prompt: string, options?: ReplyOptions): ChatParser;
  /** Another reference to the model, to be closed by itself. */
  retained(): Model;
  close(): void;
  [Symbol.dispose](): void;
}

// Contexts

export type KvType = "f16" | "f32" | "q8_0" | "i16" | "auto";

export interface ContextOptions {
  /** Positions of each sequence; 0: what the model was trained on, 4096 at most. */
  nCtx?: number;
  nThreads?: number;
  nSeq?: number;
  nBatch?: number;
  workerCpus?: Iterable<number>;
  kvType?: KvType;
  kType?: KvType;
  vType?: KvType;
  backend?: "auto" | "scalar";
  kvLimit?: number;
  keepPrefixes?: boolean;
  keepAllPositions?: boolean;
  nSnapshots?: number;
  snapshotDistance?: number;
  memoryLimit?: number;
}

export interface ContextInfo {
  nCtx: number;
  nSeq: number;
  nBatch: number;
  nThreads: number;
  pageLength: number;
  pages: number;
  freePages: number;
  backend: "auto" | "scalar";
}

export interface Timings {
  loadMs: number;
  prefillTokens: number;
  prefillMs: number;
  decodeTokens: number;
  decodeMs: number;
  embedTokens: number;
  embedMs: number;
  replayTokens: number;
  replayMs: number;
}

export interface Score {
  tokens: { token: number; logprob: number; rank: number }[];
  logprob: number;
  promptTokens: number;
  reusedTokens: number;
  greedy: boolean;
}

export interface EmbedOptions extends Signal {
  pooling?: "auto" | "none" | "mean" | "cls" | "last";
  normalize?: boolean;
  truncate?: boolean;
  dimensions?: number;
  prompt?: string;
}

export interface ClassifyOptions extends Signal {
  activation?: "auto" | "none" | "sigmoid" | "softmax";
  truncate?: boolean;
  template?: string;
  yesNo?: boolean;
}

/** In place of a sequence's number, for states. */
export const ALL_SEQUENCES: number;

export class Context implements Closable {
  private constructor();
  generate(prompt: string | Tokens, options?: GenerateOptions & Signal): AsyncGenerator<Event, void, void>;
  completions(prompt: string | Tokens, n: number, options?: GenerateOptions & Signal): AsyncGenerator<Event & { index: number }, Completed, void>;
  chat(messages: Message[], options?: ChatOptions & GenerateOptions & Signal): AsyncGenerator<Event, void, void>;
  conversation(options?: ConversationOptions): Promise<Conversation>;
  embed(texts: string[], options?: EmbedOptions): Promise<Float32Array[]>;
  embedTokens(texts: Tokens[], options?: EmbedOptions): Promise<Float32Array[]>;
  classify(texts: string[], options?: ClassifyOptions): Promise<Float32Array[]>;
  rerank(query: string, documents: string[], options?: ClassifyOptions): Promise<number[]>;
  score(prompt: string, continuation: string, options?: ScoreOptions): Promise<Score>;
  score(prompt: Tokens, continuation: Tokens, options?: ScoreOptions): Promise<Score>;
  decode(tokens: Tokens, options?: DecodeOptions & { all?: false }): Promise<Float32Array>;
  decode(tokens: Tokens, options: DecodeOptions & { all: true }): Promise<Float32Array[]>;
  logits(index: number): Float32Array;
  past(sequence?: number): number;
  tokens(sequence?: number): Uint32Array;
  rewind(n?: number, sequence?: number): void;
  copySequence(from: number, to: number, n: number): void;
  keepSequence(sequence?: number): void;
  reusePrefix(tokens: Tokens, options?: { sequence?: number; most?: number }): number;
  shift(keep: number, drop: number, sequence?: number): Promise<void>;
  saveState(sequence?: number): Uint8Array;
  loadState(state: Uint8Array, sequence?: number): void;
  saveStateFile(path: string, sequence?: number): void;
  loadStateFile(path: string, sequence?: number): void;
  writeState(write: (part: Uint8Array) => void, sequence?: number): Promise<void>;
  readState(read: (n: number) => Uint8Array, sequence?: number): Promise<void>;
  readonly info: ContextInfo;
  readonly memory: Memory;
  readonly timings: Timings;
  resetTimings(): void;
  close(): void;
  [Symbol.dispose](): void;
}

export interface ScoreOptions extends Signal {
  sequence?: number;
  parseSpecial?: boolean;
}

export interface DecodeOptions extends Signal {
  /** The sequence, or one for each token. */
  sequence?: number | Tokens;
  /** Where each token goes, to be checked. */
  positions?: Tokens;
}

// Generations

/** A stage of a sampler. Those of one object are applied in the order in which they stand here. */
export interface Stages {
  /** Added to logits; -Infinity rules a token out. */
  logitBias?: Record<number, number> | Map<number, number>;
  allow?: Tokens;
  deny?: Tokens;
  penalties?: { last?: number; repeat?: number; frequency?: number; presence?: number; generatedOnly?: boolean };
  dry?: { multiplier?: number; base?: number; allowedLength?: number; last?: number; breakers?: string[] };
  topNSigma?: number;
  topK?: number;
  typicalP?: number;
  topP?: number;
  minP?: number;
  xtc?: { probability: number; threshold: number };
  temperature?: number;
  dynamicTemperature?: { temperature: number; range: number; exponent?: number };
  infill?: boolean;
  /**
   * May change the logits of the tokens that the stages before have left. Not in requests of an engine. Close a Sampler that has it: a
   * forgotten one keeps the function.
   */
  candidates?: (tokens: Uint32Array, logits: Float32Array) => void;
  greedy?: boolean;
  mirostat?: { tau?: number; eta?: number };
  mirostat1?: { tau?: number; eta?: number; m?: number };
  adaptiveP?: { target: number; decay?: number };
}

export interface SamplerOptions extends Stages {
  /** What the text has to follow, before all other stages. */
  constraint?: Constraint;
  /** Stages in an order of one's own, one in each object; then none is given beside them. */
  stages?: (Stages & { constraint?: Constraint })[];
  seed?: number | bigint;
}

export class Sampler implements Closable {
  /** A sampler without a model; `dry` and `infill` need Model.sampler. */
  constructor(options?: SamplerOptions, model?: Model);
  sample(logits: Float32Array): number;
  accept(token: number): void;
  reset(): void;
  clone(): Sampler;
  readonly seed: bigint;
  readonly progress: Progress;
  close(): void;
  [Symbol.dispose](): void;
}

export interface GenerateOptions extends Omit<SamplerOptions, "constraint"> {
  maxTokens?: number;
  /** Ends the text before one of these. */
  stop?: string | string[];
  /** In place of stages and a seed. */
  sampler?: Sampler;
  constraint?: Constraint;
  logprobs?: boolean;
  topLogprobs?: number;
  reusePrefix?: boolean;
  ignoreEog?: boolean;
  renderSpecial?: boolean;
  parseSpecial?: boolean;
  includeStop?: boolean;
  echo?: boolean;
  sequence?: number;
  /** Milliseconds. */
  timeLimit?: number;
  shift?: { keep: number; drop: number };
  lookup?: { count?: number; ngram?: number };
  draft?: { context: Context; sequence?: number; count?: number };
}

export type FinishReason = "max_tokens" | "eog" | "stopped" | "context_full" | "stop_string" | "cancelled" | "time_limit" | "failed";
export type Progress = "none" | "waiting" | "unfinished" | "complete";

export interface Usage {
  promptTokens: number;
  reusedTokens: number;
  generatedTokens: number;
  draftedTokens: number;
  acceptedTokens: number;
  shiftedTokens: number;
  forcedTokens: number;
  prefillMs: number;
  decodeMs: number;
  /** NaN without the option logprobs. */
  sumLogprob: number;
  meanLogprob: number;
  finishReason: FinishReason | undefined;
  progress: Progress;
}

interface EventBase {
  /** New text, of whole code points, perhaps none. */
  text: string;
  logprob: number;
  top?: { token: number; logprob: number }[];
}

export type Event =
  | (EventBase & { kind: "echo"; finishReason: undefined })
  | (EventBase & { kind: "token"; token: number; finishReason: undefined })
  | (EventBase & { kind: "end"; finishReason: FinishReason; usage: Usage });

export interface Completed {
  texts: string[];
  usages: Usage[];
  /** The completions from the likeliest on, with the option logprobs. */
  best: number[] | undefined;
}

// Conversations

export interface Message {
  role: "system" | "developer" | "user" | "assistant" | "tool";
  content?: string | null;
  name?: string;
  tool_call_id?: string;
  tool_calls?: unknown[];
  [other: string]: unknown;
}

export interface ChatOptions {
  tools?: unknown[];
  variables?: Record<string, unknown>;
  template?: string;
  templateName?: string;
  thinking?: boolean;
  /** What time it is for templates that write the date. */
  now?: Date;
}

export interface TemplateOptions extends ChatOptions {
  addGenerationPrompt?: boolean;
}

export interface ReplyOptions extends ChatOptions {
  /** "auto", "none", "required", or a tool's name. */
  toolChoice?: string;
  parallelCalls?: boolean;
  strictTools?: boolean;
}

export type ConversationOptions = ReplyOptions & GenerateOptions & ({ system?: string; saved?: undefined } | { saved: Uint8Array; system?: "" });

interface CallEvent {
  text: string;
  index: number;
  id: string;
  name: string;
}

export type ReplyEvent =
  | { kind: "text" | "thinking"; text: string }
  | (CallEvent & { kind: "call_begin" | "call_arguments" })
  | (CallEvent & { kind: "call"; arguments: any })
  | (CallEvent & { kind: "call_broken"; reason: string })
  | { kind: "end"; text: string; finishReason: FinishReason };

export interface ConversationUsage {
  promptTokens: number;
  reusedTokens: number;
  generatedTokens: number;
  thinkingTokens: number;
  droppedTurns: number;
  forgottenTokens: number;
  prefillMs: number;
  decodeMs: number;
  finishReason: FinishReason | undefined;
}

export class Conversation implements Closable {
  private constructor();
  send(text?: string, options?: Signal): AsyncGenerator<ReplyEvent, void, void>;
  add(message: Message): void;
  undo(): void;
  fork(sequence: number): Conversation;
  save(): Uint8Array;
  setThinkingBudget(n: number): void;
  setToolChoice(choice: string): void;
  setWhenFull(when: "drop_oldest" | "drop_oldest_and_first" | "refuse", reserve?: number): void;
  setOnFull(f?: (tokens: number, nCtx: number, turns: number) => number): void;
  readonly messages: Message[];
  readonly usage: ConversationUsage;
  close(): void;
  [Symbol.dispose](): void;
}

export interface ChatFormat {
  calls: string;
  thinkingOpen: string;
  thinkingClose: string;
  thinkingVariable: string;
  thinkingOn: string;
  thinkingOff: string;
}

export class ChatParser implements Closable {
  private constructor();
  push(text: string): ReplyEvent[];
  finish(reason: FinishReason): ReplyEvent[];
  readonly isThinking: boolean;
  readonly format: ChatFormat;
  close(): void;
  [Symbol.dispose](): void;
}

// Constraints

export interface ConstraintOptions {
  whitespace?: number;
  triggers?: string[];
  triggerTokens?: number[];
  repeat?: boolean;
  limits?: { source?: number; grammar?: number; compile?: number; mask?: number; items?: number; states?: number };
}

export class Constraint implements Closable {
  private constructor();
  static jsonSchema(model: Model, schema: object | string, options?: ConstraintOptions): Promise<Constraint>;
  static jsonObject(model: Model, options?: ConstraintOptions): Promise<Constraint>;
  static regex(model: Model, expression: string, options?: ConstraintOptions): Promise<Constraint>;
  static lark(model: Model, grammar: string, options?: ConstraintOptions): Promise<Constraint>;
  static choices(model: Model, texts: string[], options?: ConstraintOptions): Promise<Constraint>;
  static chat(model: Model, options?: ReplyOptions & { prompt?: string }): Promise<Constraint | undefined>;
  close(): void;
  [Symbol.dispose](): void;
}

// Engines

export interface EngineOptions extends Omit<ContextOptions, "nSeq" | "keepPrefixes"> {
  nParallel?: number;
  maxQueue?: number;
  sharePrefixes?: boolean;
}

export interface Metrics {
  submitted: number;
  refused: number;
  finished: number;
  cancelled: number;
  failed: number;
  preempted: number;
  promptTokens: number;
  reusedTokens: number;
  prefilledTokens: number;
  generatedTokens: number;
  steps: number;
  busyMs: number;
  tokensPerSecond: number;
  cacheHitRate: number;
  queued: number;
  active: number;
  pages: number;
  freePages: number;
}

export class Engine implements Closable {
  private constructor();
  /** Under way from now on; options sequence, reusePrefix, lookup and draft mean nothing here. */
  submit(prompt: string | Tokens, options?: GenerateOptions & Signal & { priority?: number }): AsyncGenerator<Event, void, void>;
  readonly metrics: Metrics;
  readonly info: ContextInfo;
  close(): void;
  [Symbol.dispose](): void;
}

// Tokenizers

export interface TokenizeOptions {
  /** Whether the text gets the tokens that texts begin with (true). */
  addSpecial?: boolean;
  /** Whether the text of control tokens stands for these tokens (false). */
  parseSpecial?: boolean;
}

export interface TokenizerInfo {
  vocabularySize: number;
  bos: number | undefined;
  eos: number | undefined;
  eot: number | undefined;
  unk: number | undefined;
  pad: number | undefined;
  addsBos: boolean;
  addsEos: boolean;
  hasChatTemplate: boolean;
  fimPrefix: number | undefined;
  fimSuffix: number | undefined;
  fimMiddle: number | undefined;
  fimRepository: number | undefined;
  fimFile: number | undefined;
}

export interface FimOptions {
  order?: "auto" | "psm" | "spm" | "spm_joined";
  repository?: string;
  file?: string;
  files?: { name: string; text: string }[];
}

export class Tokenizer implements Closable {
  private constructor();
  static load(source: string | Uint8Array): Promise<Tokenizer>;
  readonly info: TokenizerInfo;
  tokenize(text: string | Uint8Array, options?: TokenizeOptions): Uint32Array;
  count(text: string, options?: TokenizeOptions): number;
  detokenize(tokens: Tokens, options?: { renderSpecial?: boolean }): string;
  bytes(token: number): Uint8Array;
  isControl(token: number): boolean;
  isEndOfGeneration(token: number): boolean;
  fimPrompt(prefix: string, suffix: string, options?: FimOptions): Uint32Array;
  close(): void;
  [Symbol.dispose](): void;
}

// The library

export type LogLevel = "error" | "warn" | "info" | "debug";
export function setLog(level?: LogLevel, f?: (level: LogLevel, line: string) => void): void;
export function version(): string;
export function buildInfo(): string;
export function hasFeature(name: string): boolean;
