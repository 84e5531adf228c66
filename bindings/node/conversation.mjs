// Conversations: messages in, events out, and a history that is kept.
import { CHAT_KIND, EmberError, FINISH, Handle, call, callAsync, eventOf, made, newStruct, utf8 } from "./native.mjs";
import { Cancel, GENERATE, REPLY, chatOptions, filled, generateOptions, only, samplerOf } from "./options.mjs";

const conversationNew = callAsync(
  "ember_conversation_new",
  "void *context, uint8_t *system, size_t n, void *chat, void *generate, _Out_ void **out",
);
const conversationLoad = callAsync(
  "ember_conversation_load",
  "void *context, uint8_t *saved, size_t n, void *chat, void *generate, _Out_ void **out",
);
const add = call("ember_conversation_add", "void *conversation, uint8_t *message, size_t n");
const begin = callAsync("ember_conversation_begin", "void *conversation, uint8_t *text, size_t n, void *sampler");
const next = callAsync("ember_conversation_next", "void *conversation, _Inout_ ember_chat_event *event");
const abandon = call("ember_conversation_abandon", "void *conversation");
const undo = call("ember_conversation_undo", "void *conversation");
const messages = call("ember_conversation_messages", "void *conversation, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const save = call("ember_conversation_save", "void *conversation, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const usage = call("ember_conversation_usage_get", "void *conversation, _Inout_ ember_conversation_usage *usage");
const thinkingBudget = call("ember_conversation_set_thinking_budget", "void *conversation, uint32_t n");
const whenFull = call("ember_conversation_set_when_full", "void *conversation, int32_t when, uint32_t reserve");

const WHEN_FULL = ["drop_oldest", "drop_oldest_and_first", "refuse"];

/**
 * A conversation with a model, which Context.conversation makes. A reply runs only what the context does not hold. What a user types can
 * never spell a control token.
 *
 * Options: system, a text, or saved, what save() gave; tools, toolChoice ("auto", "none", "required", a tool's name), parallelCalls,
 * strictTools (whether calls follow the schemas of the tools, so that they always parse; true), thinking, variables, template,
 * templateName; and those of Context.generate, from maxTokens to seed.
 */
export class Conversation {
  #handle;
  #cancel;
  #sampler;
  #take;

  /** Tools and grammars are compiled here, on a thread of its own. */
  static async make(context, take, options) {
    only(options, "conversation", ["system", "saved", ...REPLY, ...GENERATE]);
    const { system = "", saved } = options;
    if (saved !== undefined && system !== "") throw new EmberError("what was saved has a system text: give no other", "INVALID_ARGUMENT");
    const closing = [];
    const closed = (handle) => (closing.push(handle), handle);
    const conversation = new Conversation();
    const release = take();
    try {
      conversation.#take = take;
      conversation.#cancel = new Cancel();
      conversation.#sampler = samplerOf(options);
      const chat = closed(chatOptions(options));
      const how = closed(generateOptions(options, conversation.#cancel));
      const [create, text] = saved === undefined ? [conversationNew, utf8(system)] : [conversationLoad, [saved, saved.length]];
      const pointer = await context.use((c) => chat.use((o) => how.use((g) => made(create, c, ...text, o, g))));
      conversation.#handle = new Handle("conversation", pointer, "ember_conversation_free");
      return conversation;
    } finally {
      if (conversation.#handle === undefined) conversation.close();
      for (const one of closing) one.close();
      release();
    }
  }

  /** Adds a message without having it answered: the result of a tool, say: { role: "tool", tool_call_id, name, content }. */
  add(message) {
    this.#handle.use((c) => add(c, ...utf8(JSON.stringify(message))));
  }

  /**
   * Adds a user's message and yields the reply's events; without one, those that were added are answered. An event has a kind, text,
   * and what goes with it:
   *
   * - "text", "thinking": more of the answer, and of what the model thinks before it;
   * - "call_begin" (index, id, name), "call_arguments" (index, text): a call of a tool as it comes;
   * - "call" (index, id, name, text, arguments): it is complete; arguments is the object that text says in JSON;
   * - "call_broken" (index, name, reason, text): what began as a call is none; its text belongs to the answer;
   * - "end" (finishReason): the reply is a message now.
   *
   * Leaving the loop gives the reply up: it becomes no message. `signal`, an AbortSignal, ends it; its reason is thrown.
   */
  async *send(text = "", { signal, ...rest } = {}) {
    only(rest, "send", ["signal"]);
    signal?.throwIfAborted();
    this.#handle.use(() => {}); // it may be closed
    const release = this.#take();
    let isOver = false;
    try {
      this.#cancel.follow(signal);
      const start = (s) => this.#handle.use((c) => begin(c, ...utf8(text), s));
      await (this.#sampler ? this.#sampler.use(start) : start(null));
      for (const event = newStruct("ember_chat_event"); !isOver; ) {
        await this.#handle.use((c) => next(c, event));
        isOver = CHAT_KIND[event.kind] === "end";
        if (isOver && FINISH[event.finish_reason] === "cancelled") this.#cancel.throwIfAborted();
        yield eventOf(event);
      }
    } catch (error) {
      throw this.#cancel.reason(error);
    } finally {
      if (!isOver && !this.#handle.closed) this.#handle.use(abandon);
      if (!this.#cancel.handle.closed) this.#cancel.follow(undefined);
      release();
    }
  }

  /** All messages so far, those that were dropped included. */
  get messages() {
    return JSON.parse(Buffer.from(this.#bytes(messages)).toString());
  }

  /** The conversation as bytes, for the option `saved`. */
  save() {
    return this.#bytes(save).slice();
  }

  #bytes(f) {
    return filled(8192, (n) => new Uint8Array(n), (buffer, needed) => this.#handle.use((c) => f(c, buffer, buffer.length, needed)));
  }

  /** Forgets the last turn: the user's last message and all behind it. */
  undo() {
    this.#handle.use(undo);
  }

  /** What the last reply took. */
  get usage() {
    const raw = newStruct("ember_conversation_usage");
    this.#handle.use((c) => usage(c, raw));
    return {
      promptTokens: raw.n_prompt,
      reusedTokens: raw.n_reused,
      generatedTokens: raw.n_generated,
      thinkingTokens: raw.n_thinking,
      droppedTurns: raw.n_dropped_turns,
      forgottenTokens: raw.n_forgotten,
      finishReason: FINISH[raw.finish_reason],
    };
  }

  /** Ends a thought after n tokens; 0: none does. */
  setThinkingBudget(n) {
    this.#handle.use((c) => thinkingBudget(c, n));
  }

  /**
   * What happens where the conversation becomes longer than the context: "drop_oldest" (whole turns, but the first), "drop_oldest_and_first"
   * or "refuse", and how many tokens must be free for a reply.
   */
  setWhenFull(when, reserve = 0) {
    const number = WHEN_FULL.indexOf(when);
    if (number < 0) throw new EmberError(`when must be one of ${WHEN_FULL.join(", ")}, not ${when}`, "INVALID_ARGUMENT");
    this.#handle.use((c) => whenFull(c, number, reserve));
  }

  /** Frees the conversation, once a reply under way has ended. */
  close() {
    for (const one of [this.#handle, this.#sampler, this.#cancel]) one?.close();
  }
}
