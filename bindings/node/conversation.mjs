// Conversations: messages in, events out, and a history that is kept.
import {
  CHAT_KIND, Callback, Closing, FINISH, HANDLE, Handle, Owner, call, callAsync, eventOf, made, newStruct, refused, useAll, utf8,
} from "./native.mjs";
import { Cancel, REPLY, chatOptions, generateOptions, isSet, number, only } from "./options.mjs";
import { GENERATE, samplerOf } from "./sampler.mjs";

const conversationNew = callAsync(
  "ember_conversation_new",
  "void *context, uint8_t *system, size_t n, void *chat, void *generate, _Out_ void **out",
);
const conversationLoad = callAsync(
  "ember_conversation_load",
  "void *context, uint8_t *saved, size_t n, void *chat, void *generate, _Out_ void **out",
);
const fork = call("ember_conversation_fork", "void *conversation, uint32_t sequence, _Out_ void **out");
const setOnFull = call("ember_conversation_set_on_full", "void *conversation, ember_full_callback *callback, void *user_data");
const add = call("ember_conversation_add", "void *conversation, uint8_t *message, size_t n");
const begin = callAsync("ember_conversation_begin", "void *conversation, uint8_t *text, size_t n, void *sampler");
const next = callAsync("ember_conversation_next", "void *conversation, _Inout_ ember_chat_event *event");
const abandon = call("ember_conversation_abandon", "void *conversation");
const undo = call("ember_conversation_undo", "void *conversation");
const messages = call("ember_conversation_messages", "void *conversation, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const save = call("ember_conversation_save", "void *conversation, uint8_t *buffer, size_t capacity, _Out_ size_t *needed");
const usage = call("ember_conversation_usage_get", "void *conversation, _Inout_ ember_conversation_usage *usage");
const thinkingBudget = call("ember_conversation_set_thinking_budget", "void *conversation, uint32_t n");
const toolChoice = call("ember_conversation_set_tool_choice", "void *conversation, uint8_t *choice, size_t n");
const whenFull = call("ember_conversation_set_when_full", "void *conversation, int32_t when, uint32_t reserve");

const WHEN_FULL = ["drop_oldest", "drop_oldest_and_first", "refuse"];

/**
 * A conversation with a model, which Context.conversation makes. A reply runs only what the context does not hold. Text from a user can
 * never spell a control token.
 *
 * Options: system, a text, or saved, what save() gave; tools, toolChoice ("auto", "none", "required", a tool's name), parallelCalls,
 * strictTools (whether calls follow the schemas of the tools, so that they always parse; true), thinking, variables, template,
 * templateName; and those of Context.generate, from maxTokens to seed.
 */
export class Conversation extends Owner {
  #cancel;
  #sampler;
  #take;
  #onFull;

  constructor(pointer, { cancel, sampler, take }) {
    const onFull = { callback: undefined };
    // Functions that C calls go after the conversation.
    const after = () => [onFull.callback, sampler, cancel].forEach((one) => one?.close());
    super(new Handle("conversation", pointer, "ember_conversation_free", after));
    this.#cancel = cancel;
    this.#sampler = sampler;
    this.#take = take;
    this.#onFull = onFull;
  }

  /** Tools and grammars are compiled here, on a thread of its own. */
  static async make(context, model, take, options) {
    only(options, "conversation", ["system", "saved", ...REPLY, ...GENERATE]);
    const { system = "", saved } = options;
    if (saved !== undefined && system !== "") throw refused("what was saved has a system text: give no other");
    const [kept, closing] = [new Closing(), new Closing()];
    const release = take();
    try {
      const cancel = kept.keep(new Cancel());
      const sampler = kept.keep(samplerOf(options, model));
      const how = [closing.keep(chatOptions(options)), closing.keep(generateOptions(options, cancel))];
      const [create, text] = saved === undefined ? [conversationNew, utf8(system)] : [conversationLoad, [saved, saved.length]];
      const pointer = await useAll([context, ...how], (c, o, g) => made(create, c, ...text, o, g));
      return new Conversation(pointer, { cancel, sampler, take });
    } catch (error) {
      kept.close();
      throw error;
    } finally {
      closing.close();
      release();
    }
  }

  /**
   * The same conversation in another sequence of the context, which gets what this one's holds: both go on by themselves. The copy does not
   * have the function of setOnFull.
   */
  fork(sequence) {
    const pointer = this[HANDLE].made(fork, number("sequence", sequence));
    return new Conversation(pointer, { cancel: this.#cancel.share(), sampler: this.#sampler?.again(), take: this.#take });
  }

  /** Adds a message without having it answered: the result of a tool, say: { role: "tool", tool_call_id, name, content }. */
  add(message) {
    this[HANDLE].call(add, ...utf8(JSON.stringify(message)));
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
    this.use(() => {}); // it may be closed
    const release = this.#take();
    let isOver = false;
    try {
      this.#cancel.follow(signal);
      await useAll([this, this.#sampler], (c, s) => begin(c, ...utf8(text), s));
      for (const event = newStruct("ember_chat_event"); !isOver; ) {
        await this[HANDLE].call(next, event);
        isOver = CHAT_KIND[event.kind] === "end";
        if (isOver && FINISH[event.finish_reason] === "cancelled") this.#check();
        yield eventOf(event);
      }
    } catch (error) {
      this.#check();
      throw this.#cancel.reason(error);
    } finally {
      if (!isOver && !this[HANDLE].closed) this[HANDLE].call(abandon);
      if (!this.#cancel.handle.closed) this.#cancel.follow(undefined);
      release();
    }
  }

  /** Throws what a function of the caller's threw, or the reason of the signal. */
  #check() {
    this.#onFull.callback?.check();
    this.#sampler?.check();
    this.#cancel.throwIfAborted();
  }

  /** All messages so far, those that were dropped included. */
  get messages() {
    return JSON.parse(this[HANDLE].text(messages, 8192));
  }

  /** The conversation as bytes, for the option `saved`. */
  save() {
    return this[HANDLE].bytes(save, 8192).slice();
  }

  /** Forgets the last turn: the user's last message and all after it. */
  undo() {
    this[HANDLE].call(undo);
  }

  /**
   * What the last reply took: { promptTokens, reusedTokens, generatedTokens, thinkingTokens, droppedTurns, forgottenTokens, prefillMs,
   * decodeMs, finishReason }.
   */
  get usage() {
    const raw = this[HANDLE].read("ember_conversation_usage", usage);
    return {
      promptTokens: raw.n_prompt,
      reusedTokens: raw.n_reused,
      generatedTokens: raw.n_generated,
      thinkingTokens: raw.n_thinking,
      droppedTurns: raw.n_dropped_turns,
      forgottenTokens: raw.n_forgotten,
      prefillMs: Number(raw.prefill_ns) / 1e6,
      decodeMs: Number(raw.decode_ns) / 1e6,
      finishReason: FINISH[raw.finish_reason],
    };
  }

  /** Ends a thought after n tokens; 0: none does. */
  setThinkingBudget(n) {
    this[HANDLE].call(thinkingBudget, number("n", n));
  }

  /** Whether replies from now on have to call a tool: "auto", "none", "required", a tool's name. It holds until another choice is set. */
  setToolChoice(choice) {
    this[HANDLE].call(toolChoice, ...utf8(choice));
  }

  /**
   * What happens where the conversation becomes longer than the context: "drop_oldest" (whole turns, but the first), "drop_oldest_and_first"
   * or "refuse", and how many tokens must be free for a reply.
   */
  setWhenFull(when, reserve = 0) {
    const index = WHEN_FULL.indexOf(when);
    if (index < 0) throw refused(`when must be one of ${WHEN_FULL.join(", ")}, not ${when}`);
    this[HANDLE].call(whenFull, index, number("reserve", reserve));
  }

  /**
   * Where the conversation becomes too long, `f` says how many turns are dropped, the oldest first. It gets the number of tokens needed,
   * the number that a sequence holds, and the number of turns that can be dropped. 0 ends the reply. undefined: as few as need be.
   */
  setOnFull(f) {
    if (isSet(f) && typeof f !== "function") throw refused("setOnFull takes a function");
    const before = this.#onFull.callback;
    const asked = (...numbers) => number("what setOnFull's function gives", f(...numbers));
    const after = isSet(f) ? new Callback("ember_full_callback", 0, asked) : undefined;
    try {
      this[HANDLE].call(setOnFull, after?.pointer ?? null, null);
    } catch (error) {
      after?.close();
      throw error;
    }
    this.#onFull.callback = after;
    before?.close();
  }
}
