// An engine: many requests together.
import {
  Closing, HANDLE, Handle, Owner, call, callAsync, contextInfoOf, generatedOf, made, newStruct, refused, useAll, usageOf, utf8,
} from "./native.mjs";
import { CONTEXT, boolSetter, contextOptions, generateOptions, numberSetter, only, optionsMaker } from "./options.mjs";
import { GENERATE, samplerOf } from "./sampler.mjs";

const engineOptions = optionsMaker("engine", {
  nParallel: numberSetter("ember_engine_options_set_n_parallel"),
  maxQueue: numberSetter("ember_engine_options_set_max_queue"),
  sharePrefixes: boolSetter("ember_engine_options_set_share_prefixes"),
  thread: boolSetter("ember_engine_options_set_thread"),
});
const setContext = call("ember_engine_options_set_context_options", "void *options, void *context_options");
const engineNew = call("ember_engine_new", "void *model, void *options, _Out_ void **out");
const SUBMITTED = "void *options, void *sampler, void *callback, void *user_data, _Out_ void **out";
const submit = call("ember_engine_submit", `void *engine, uint8_t *prompt, size_t n, ${SUBMITTED}`);
const submitTokens = call("ember_engine_submit_tokens", `void *engine, uint32_t *prompt, size_t n, ${SUBMITTED}`);
const metricsGet = call("ember_engine_metrics_get", "void *engine, _Inout_ ember_engine_metrics *out");
const infoGet = call("ember_engine_info_get", "void *engine, _Inout_ ember_context_info *out");
const engineFree = callAsync.void("ember_engine_free", "void *engine");
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
export class Engine extends Owner {
  #model;

  constructor(pointer, model) {
    // Freeing waits for the engine's thread: not on the thread of JavaScript.
    super(new Handle("engine", pointer, engineFree, () => model.close()));
    this.#model = model;
  }

  static of(model, { nParallel = 8, maxQueue = 256, sharePrefixes, ...context }) {
    const its = CONTEXT.filter((name) => name !== "nSeq" && name !== "keepPrefixes"); // the engine has options for these
    only(context, "engine", ["nParallel", "maxQueue", "sharePrefixes", ...its]);
    const closing = new Closing();
    try {
      const how = closing.keep(engineOptions({ nParallel, maxQueue, sharePrefixes, thread: true }));
      useAll([how, closing.keep(contextOptions(context))], setContext);
      return new Engine(useAll([model, how], (m, o) => made(engineNew, m, o)), model.retained());
    } finally {
      closing.close();
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
    const closing = new Closing();
    try {
      const how = closing.keep(generateOptions(options));
      const sampler = closing.keep(samplerOf(options, this.#model));
      // The engine's thread would wait for that of JavaScript, which may be waiting for the engine's.
      if (sampler?.hasCallbacks) throw refused("a request of an engine takes no candidates: use Context.generate");
      const [create, text] =
        typeof prompt === "string" ? [submit, utf8(prompt)] : [submitTokens, [Uint32Array.from(prompt), prompt.length]];
      const pointer = useAll([this, how, sampler], (e, o, s) => made(create, e, ...text, o, s, null, null));
      return eventsOf(new Handle("request", pointer, "ember_request_free"), signal);
    } finally {
      closing.close();
    }
  }

  /**
   * What the engine has done: { submitted, refused, finished, cancelled, failed, preempted, promptTokens, reusedTokens, prefilledTokens,
   * generatedTokens, steps, busyMs, tokensPerSecond, cacheHitRate, queued, active, pages, freePages }.
   */
  get metrics() {
    const raw = this[HANDLE].read("ember_engine_metrics", metricsGet);
    return {
      submitted: Number(raw.n_submitted),
      refused: Number(raw.n_refused),
      finished: Number(raw.n_finished),
      cancelled: Number(raw.n_cancelled),
      failed: Number(raw.n_failed),
      preempted: Number(raw.n_preempted),
      promptTokens: Number(raw.n_prompt),
      reusedTokens: Number(raw.n_reused),
      prefilledTokens: Number(raw.n_prefilled),
      generatedTokens: Number(raw.n_generated),
      steps: Number(raw.n_steps),
      busyMs: Number(raw.busy_ns) / 1e6,
      tokensPerSecond: raw.tokens_per_s,
      cacheHitRate: raw.cache_hit_rate,
      queued: raw.n_queued,
      active: raw.n_active,
      pages: raw.n_pages,
      freePages: raw.n_free_pages,
    };
  }

  /** The options in force, as Context.info: nCtx are the positions of each request, nSeq how many run together. */
  get info() {
    return contextInfoOf(this[HANDLE].read("ember_context_info", infoGet));
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
