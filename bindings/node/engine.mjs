// An engine: many requests together.
import { Handle, call, callAsync, generatedOf, made, newStruct, usageOf, utf8 } from "./native.mjs";
import { GENERATE, contextOptions, contextSetters, generateOptions, number, only, optionsHandle, samplerOf } from "./options.mjs";

const optionsNew = call("ember_engine_options_new", "_Out_ void **out");
const setParallel = call("ember_engine_options_set_n_parallel", "void *options, uint32_t n");
const setQueue = call("ember_engine_options_set_max_queue", "void *options, uint32_t n");
const setContext = call("ember_engine_options_set_context_options", "void *options, void *context_options");
const setThread = call("ember_engine_options_set_thread", "void *options, bool thread");
const engineNew = call("ember_engine_new", "void *model, void *options, _Out_ void **out");
const SUBMITTED = "void *options, void *sampler, void *callback, void *user_data, _Out_ void **out";
const submit = call("ember_engine_submit", `void *engine, uint8_t *prompt, size_t n, ${SUBMITTED}`);
const submitTokens = call("ember_engine_submit_tokens", `void *engine, uint32_t *prompt, size_t n, ${SUBMITTED}`);
const metricsGet = call("ember_engine_metrics_get", "void *engine, _Inout_ ember_engine_metrics *out");
const NEXT = "void *request, uint32_t timeout_ms, _Inout_ ember_event *event";
const next = call("ember_request_next", NEXT);
const nextAsync = callAsync("ember_request_next", NEXT);
const requestUsage = call("ember_request_usage", "void *request, _Inout_ ember_generate_result *usage");
const requestCancel = call.void("ember_request_cancel", "void *request");

const SLICE_MS = 20; // how long a request holds one of the few threads that calls wait on

/**
 * Runs many requests together, which takes far less time than one after the other; each gives what it would give alone. A thread of the
 * engine's own does the work. Model.engine makes it.
 */
export class Engine {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  static of(model, { nParallel = 8, maxQueue = 256, ...context }) {
    only(context, "engine", ["nParallel", "maxQueue", "nCtx", "nThreads"]);
    const how = optionsHandle(optionsNew, "ember_engine_options_free", { nParallel, maxQueue }, {
      nParallel: (options, n) => setParallel(options, number("nParallel", n)),
      maxQueue: (options, n) => setQueue(options, number("maxQueue", n)),
    });
    let of;
    try {
      of = contextOptions(context);
      how.use((o) => (of.use((c) => setContext(o, c)), setThread(o, true)));
      return new Engine(new Handle("engine", model.use((m) => how.use((o) => made(engineNew, m, o))), "ember_engine_free"));
    } finally {
      of?.close();
      how.close();
    }
  }

  /**
   * Has a prompt (the whole text, or tokens) continued, and gives its events, as Context.generate does: an async iterable that is under way
   * from now on. Options are those of Context.generate, and priority (of those that wait, the highest begins first); sequence,
   * reusePrefix, lookup and draft mean nothing here. Leaving the loop cancels the request, and so does `signal`, whose reason is thrown.
   */
  submit(prompt, { signal, ...options } = {}) {
    only(options, "submit", [...GENERATE, "priority"]);
    signal?.throwIfAborted();
    const how = generateOptions(options);
    let sampler;
    try {
      sampler = samplerOf(options);
      const tokens = typeof prompt === "string" ? undefined : Uint32Array.from(prompt);
      const from = tokens === undefined ? utf8(prompt) : [tokens, tokens.length];
      const create = (s) =>
        this.#handle.use((e) => how.use((o) => made(tokens === undefined ? submit : submitTokens, e, ...from, o, s, null, null)));
      const pointer = sampler ? sampler.use(create) : create(null);
      return eventsOf(new Handle("request", pointer, "ember_request_free"), signal);
    } finally {
      sampler?.close();
      how.close();
    }
  }

  /**
   * What the engine has done: { submitted, refused, finished, cancelled, failed, promptTokens, reusedTokens, generatedTokens,
   * tokensPerSecond, queued, active }.
   */
  get metrics() {
    const raw = newStruct("ember_engine_metrics");
    this.#handle.use((e) => metricsGet(e, raw));
    return {
      submitted: Number(raw.n_submitted),
      refused: Number(raw.n_refused),
      finished: Number(raw.n_finished),
      cancelled: Number(raw.n_cancelled),
      failed: Number(raw.n_failed),
      promptTokens: Number(raw.n_prompt),
      reusedTokens: Number(raw.n_reused),
      generatedTokens: Number(raw.n_generated),
      tokensPerSecond: raw.tokens_per_s,
      queued: raw.n_queued,
      active: raw.n_active,
    };
  }

  /** Cancels all requests and frees the engine; events that were not taken stay. */
  close() {
    this.#handle.close();
  }
}

/** The events of a request, whose reader may never begin: then the handle is forgotten, which cancels it. */
async function* eventsOf(request, signal) {
  const cancel = () => request.use(requestCancel);
  try {
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted) cancel();
    for (let raw = newStruct("ember_event"), event; event?.kind !== "end"; ) {
      // What is there already costs no thread.
      request.use((r) => next(r, 0, raw));
      while ((event = generatedOf(raw)) === undefined) await request.use((r) => nextAsync(r, SLICE_MS, raw));
      if (event.finishReason === "cancelled") signal?.throwIfAborted();
      if (event.kind === "end") event.usage = usageOf((out) => request.use((r) => requestUsage(r, out)));
      yield event;
    }
  } finally {
    signal?.removeEventListener("abort", cancel);
    request.close();
  }
}
