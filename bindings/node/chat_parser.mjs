// The parser of replies, for generations of one's own.
import { FINISH, HANDLE, Handle, Owner, call, eventOf, made, newStruct, refused, textOf, useAll, utf8 } from "./native.mjs";
import { REPLY, chatOptions, only } from "./options.mjs";

const parserNew = call("ember_chat_parser_new", "void *model, void *options, uint8_t *prompt, size_t n, _Out_ void **out");
const push = call("ember_chat_parser_push", "void *parser, uint8_t *text, size_t n");
const finish = call("ember_chat_parser_finish", "void *parser, int32_t reason");
const next = call("ember_chat_parser_next", "void *parser, _Inout_ ember_chat_event *event");
const thinking = call("ember_chat_parser_is_thinking", "void *parser, _Out_ uint32_t *out");
const formatGet = call("ember_chat_parser_format", "void *parser, _Inout_ ember_chat_format *format");

/**
 * Reads a reply of a model while it streams: the answer, what is thought before it, and calls of tools. Model.chatParser makes it. Have the
 * generation write control tokens (renderSpecial), of which marks often are made.
 */
export class ChatParser extends Owner {
  /** Reads a reply to `prompt`, the text that applyChatTemplate gave, with the same options. */
  static of(model, prompt, options) {
    only(options, "chatParser", REPLY);
    const how = chatOptions(options);
    try {
      const pointer = useAll([model, how], (m, o) => made(parserNew, m, o, ...utf8(prompt)));
      return new ChatParser(new Handle("parser", pointer, "ember_chat_parser_free"));
    } finally {
      how.close();
    }
  }

  /** Takes more of the reply, the text of an event, and gives the pieces that are certain now; they are as Conversation.send yields them. */
  push(text) {
    return this.#events((p) => push(p, ...utf8(text)));
  }

  /** Ends the reply, for the finishReason of the last event, and gives the pieces that waited for more. */
  finish(reason) {
    const number = FINISH.indexOf(reason);
    if (number < 0) throw refused(`the reason must be one of ${FINISH.join(", ")}, not ${reason}`);
    return this.#events((p) => finish(p, number));
  }

  #events(feed) {
    return this.use((p) => {
      feed(p);
      const all = [];
      for (const raw = newStruct("ember_chat_event"); ; ) {
        next(p, raw);
        const event = eventOf(raw);
        if (event.kind === "none") return all;
        all.push(event);
      }
    });
  }

  /** Whether the reply is inside a thought now. */
  get isThinking() {
    return this[HANDLE].made(thinking) !== 0;
  }

  /**
   * How the model writes replies: { calls, thinkingOpen, thinkingClose, thinkingVariable, thinkingOn, thinkingOff }; calls is the form of
   * calls, "hermes" for example, or "" where none is known.
   */
  get format() {
    const raw = this[HANDLE].read("ember_chat_format", formatGet); // whose memory is the parser's
    return {
      calls: textOf(raw, "name"),
      thinkingOpen: textOf(raw, "thinking_open"),
      thinkingClose: textOf(raw, "thinking_close"),
      thinkingVariable: textOf(raw, "thinking_variable"),
      thinkingOn: textOf(raw, "thinking_on"),
      thinkingOff: textOf(raw, "thinking_off"),
    };
  }
}
