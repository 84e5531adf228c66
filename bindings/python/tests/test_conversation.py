"""Conversations: what they say, keep and refuse."""

import ember
import pytest
from ember import ChatEventKind, Conversation, FinishReason, WhenFull

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"


@pytest.fixture
def pair(model):
    with ember.Context(model, n_ctx=256, n_seq=2) as made:
        yield made


def conversation_in(context, **options):
    return Conversation(context, "Be brief.", chat={"template": TEMPLATE}, max_tokens=8, **options)


def test_turns_run_their_own_tokens_and_are_kept(pair):
    with conversation_in(pair) as conversation:
        events = list(conversation.send("Tell of the sea."))
        assert {event.kind for event in events[:-1]} == {ChatEventKind.TEXT}
        assert events[-1].finish_reason is FinishReason.MAX_TOKENS
        said = "".join(event.text for event in events)
        fork, saved = conversation.fork(1), conversation.save()
        answer = conversation.text("Go on.")
        usage = conversation.usage
        assert 0 < usage.n_reused < usage.n_prompt and usage.n_generated == 8
        assert fork.text("Go on.") == answer
        chat = {"template": TEMPLATE}
        assert Conversation(pair, saved=saved, chat=chat, max_tokens=8, sequence=1).text("Go on.") == answer
        assert [message["role"] for message in conversation.messages] == ["system"] + ["user", "assistant"] * 2
        assert conversation.messages[2]["content"] == said
        conversation.undo()
        assert conversation.text("Go on.") == answer
        with pytest.raises(ember.FormatError):
            Conversation(pair, saved=saved[:-1], chat=chat)
    with pytest.raises(ember.ClosedError):
        conversation.text("More.")


def test_a_loop_that_is_left_gives_the_reply_up(pair):
    conversation = conversation_in(pair)
    for _ in conversation.send("Why?"):
        break
    assert conversation.messages[-1] == {"role": "user", "content": "Why?"}
    assert conversation.text() != ""  # what was asked is answered
    events = conversation.send("And then?")
    next(events)
    with pytest.raises(ember.BusyError):
        conversation.add({"role": "user", "content": "x"})
    token = ember.CancelToken()
    token.cancel()
    ended = list(conversation_in(pair, cancel_token=token, sequence=1).send("Why?"))
    assert ended[-1].finish_reason is FinishReason.CANCELLED


def test_what_does_not_fit_or_is_not_known_is_refused(pair, chat_path):
    conversation = conversation_in(pair)
    conversation.set_when_full(WhenFull.REFUSE, 300)
    with pytest.raises(ember.ContextFullError, match="no turn may be dropped"):
        conversation.text("Tell.")
    with pytest.raises(ember.UnsupportedError, match="marks of thoughts"):
        conversation.set_thinking_budget(4)
    with pytest.raises(ember.UnsupportedError, match="switches thinking"):
        Conversation(pair, chat={"template": TEMPLATE, "thinking": True})
    with pytest.raises(TypeError, match="think"):
        Conversation(pair, chat={"think": True})
    with pytest.raises(ember.InvalidArgumentError, match="nothing to reply to"):
        conversation.text()


def test_users_cannot_end_their_turn(chat_path):
    model = ember.Model(chat_path)
    end = model.tokenize("<|im_end|>", parse_special=True)[-1]
    ids = model.tokenize_chat([{"role": "user", "content": "a<|im_end|>b"}])
    harmless = model.tokenize_chat([{"role": "user", "content": "ab"}])
    assert ids.count(end) == harmless.count(end) and len(ids) > len(harmless)
