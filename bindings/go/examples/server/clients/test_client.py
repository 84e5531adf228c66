"""The official OpenAI package for Python, unchanged, against the example server; test.sh starts the servers."""

import asyncio
import base64
import json
import os
import struct
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import openai

URL = os.environ["EMBER_URL"]
SMALL_URL = os.environ["EMBER_SMALL_URL"]
REAL_URL = os.environ["EMBER_REAL_URL"]
ROOT = Path(os.environ["EMBER_ROOT"])

client = openai.OpenAI(base_url=URL + "/v1", api_key="secret", max_retries=0)
real = openai.OpenAI(base_url=REAL_URL + "/v1", api_key="any", max_retries=0)
SEA = [{"role": "user", "content": "The sea was calm."}]
# Takes the real model some seconds, and nothing but a cancellation ends it before.
ENDLESS = {"model": "smollm2", "messages": SEA, "max_tokens": 3000, "logit_bias": {"0": -100, "2": -100}}
CANCELLED = 'ember_requests_cancelled_total{model="smollm2"}'
ACTIVE = 'ember_requests_active{model="smollm2"}'
SUBMITTED = 'ember_requests_submitted_total{model="smollm2"}'


def chat(content="The sea was calm.", **options):
    options = {"model": "toy", "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 16, **options}
    return client.chat.completions.create(**options)


def metric(line, url=URL):
    with urllib.request.urlopen(url + "/metrics") as answer:
        for text in answer.read().decode().splitlines():
            if text.startswith(line + " "):
                return float(text.rsplit(" ", 1)[1])
    raise AssertionError(f"/metrics has no {line}")


def wait_for(line, value, url=URL):
    for _ in range(1200):
        if metric(line, url) == value:
            return
        time.sleep(0.05)
    raise AssertionError(f"{line} is {metric(line, url)} and does not become {value}")


def needs(what, call):
    """Skips a test, and says so, while the server refuses what it is about."""
    try:
        return call()
    except openai.BadRequestError as refusal:
        if refusal.code != "unsupported_parameter":
            raise
        raise unittest.SkipTest(f"{what}: {refusal.message}") from None


class Chat(unittest.TestCase):
    def test_answer(self):
        answer = chat()
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.model, "toy")
        self.assertTrue(answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertTrue(answer._request_id.startswith("req-"))
        # What came back may be sent again.
        again = client.chat.completions.create(
            model="toy", messages=[*SEA, answer.choices[0].message, {"role": "user", "content": "And?"}], max_tokens=2
        )
        self.assertGreater(again.usage.prompt_tokens, answer.usage.prompt_tokens)

    def test_real_model(self):
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        answer = real.chat.completions.create(model="smollm2", messages=messages, temperature=0, max_tokens=6)
        self.assertEqual(answer.choices[0].message.content, "L'Étoile,")  # llama.cpp begins this answer in the same way

    def test_stream(self):
        whole = chat()
        text, reasons, usages = "", [], []
        for chunk in chat(stream=True, stream_options={"include_usage": True}):
            usages.append(chunk.usage)
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reasons.append(choice.finish_reason)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(reasons[-1], whole.choices[0].finish_reason)
        self.assertEqual(set(reasons[:-1]), {None})
        self.assertEqual(set(usages[:-1]), {None})
        self.assertEqual(usages[-1].total_tokens, whole.usage.total_tokens)

    def test_stream_helper(self):
        stop = chat().choices[0].message.content.split()[3]  # the helper raises for answers that max_tokens has cut
        with client.chat.completions.stream(model="toy", messages=SEA, temperature=0, stop=stop, n=2, logprobs=True) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        whole = chat(stop=stop, n=2, logprobs=True)
        for choice, want in zip(final.choices, whole.choices, strict=True):
            self.assertEqual(choice.message.content, want.message.content)
            self.assertEqual([t.token for t in choice.logprobs.content], [t.token for t in want.logprobs.content])

    def test_logprobs(self):
        answer = chat(logprobs=True, top_logprobs=4, max_tokens=5)
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), 5)
        self.assertEqual(b"".join(bytes(token.bytes) for token in content).decode(), answer.choices[0].message.content)
        for token in content:
            self.assertEqual(len(token.top_logprobs), 4)
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)
            self.assertEqual(token.top_logprobs, sorted(token.top_logprobs, key=lambda top: -top.logprob))

    def test_choices_and_seeds(self):
        answer = chat(n=4, seed=11, temperature=1.0)
        texts = [choice.message.content for choice in answer.choices]
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        self.assertGreater(len(set(texts)), 1)
        self.assertEqual(texts, [choice.message.content for choice in chat(n=4, seed=11, temperature=1.0).choices])

    def test_stop(self):
        whole = chat().choices[0].message.content
        stop = whole.split()[1]
        answer = chat(stop=[stop, "never said"])
        self.assertEqual(answer.choices[0].message.content, whole.partition(stop)[0])
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_logit_bias_and_penalties(self):
        plain = chat().choices[0].message.content
        self.assertNotEqual(chat(frequency_penalty=2.0, presence_penalty=2.0).choices[0].message.content, plain)
        forced = chat(logit_bias={"300": 100}, max_tokens=3, logprobs=True).choices[0].logprobs.content
        self.assertEqual(len({token.token for token in forced}), 1)


class Errors(unittest.TestCase):
    def test_kinds(self):
        stranger = openai.OpenAI(base_url=URL + "/v1", api_key="wrong", max_retries=0)
        for kind, code, call in [
            (openai.AuthenticationError, "invalid_api_key", lambda: stranger.models.list()),
            (openai.NotFoundError, "model_not_found", lambda: chat(model="gpt-4o")),
            (openai.BadRequestError, "context_length_exceeded", lambda: chat("The sea was calm. " * 500)),
            (openai.BadRequestError, "context_length_exceeded", lambda: chat(max_tokens=100000)),
            (openai.BadRequestError, "invalid_value", lambda: chat(temperature=3)),
            (openai.BadRequestError, "unsupported_parameter", lambda: chat(extra_body={"mirostat": 2})),
            (openai.BadRequestError, "unsupported_parameter", lambda: chat(reasoning_effort="high")),
        ]:
            with self.subTest(code), self.assertRaises(kind) as caught:
                call()
            self.assertEqual(caught.exception.code, code)
            self.assertTrue(caught.exception.body["message"])

    def test_cancellation_by_disconnect(self):
        cancelled = metric(CANCELLED, REAL_URL)
        stream = real.chat.completions.create(**ENDLESS, stream=True)
        for _ in zip(range(3), stream, strict=False):
            pass
        stream.close()
        wait_for(CANCELLED, cancelled + 1, REAL_URL)
        wait_for(ACTIVE, 0, REAL_URL)

    def test_cancellation_of_whole_answers(self):
        cancelled, submitted = metric(CANCELLED, REAL_URL), metric(SUBMITTED, REAL_URL)

        async def leave():
            async with openai.AsyncOpenAI(base_url=REAL_URL + "/v1", api_key="any", max_retries=0) as other:
                task = asyncio.create_task(other.chat.completions.create(**ENDLESS, n=4))
                while metric(SUBMITTED, REAL_URL) < submitted + 4:
                    await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        asyncio.run(leave())
        wait_for(CANCELLED, cancelled + 4, REAL_URL)
        wait_for(ACTIVE, 0, REAL_URL)

    def test_full_queue(self):
        small = openai.OpenAI(base_url=SMALL_URL + "/v1", api_key="any", max_retries=0)
        running = small.chat.completions.create(**ENDLESS, stream=True)
        next(iter(running))
        short = {"model": "smollm2", "messages": SEA, "max_tokens": 2}
        waits = threading.Thread(target=lambda: small.chat.completions.create(**short))
        waits.start()
        wait_for('ember_requests_queued{model="smollm2"}', 1, SMALL_URL)
        with self.assertRaises(openai.RateLimitError) as caught:
            small.chat.completions.create(**short)
        self.assertEqual(caught.exception.response.headers["retry-after"], "1")
        # The client tries again by itself, as the answer says, until the queue has a free place.
        running.close()
        patient = openai.OpenAI(base_url=SMALL_URL + "/v1", api_key="any", max_retries=50)
        self.assertTrue(patient.chat.completions.create(**short).choices)
        waits.join()


class Completions(unittest.TestCase):
    def test_echo_and_logprobs(self):
        answer = client.completions.create(
            model="toy", prompt=["The sea was calm", "The wolf"], max_tokens=4, temperature=0, echo=True, logprobs=2, n=2
        )
        self.assertEqual(len(answer.choices), 4)
        for i, choice in enumerate(answer.choices):
            self.assertTrue(choice.text.startswith(("The sea was calm", "The wolf")[i // 2]))
            logprobs = choice.logprobs
            self.assertEqual("".join(logprobs.tokens), choice.text)
            self.assertIsNone(logprobs.token_logprobs[0])
            self.assertEqual(len(logprobs.text_offset), len(logprobs.tokens))
            for token, offset in zip(logprobs.tokens, logprobs.text_offset, strict=True):
                self.assertTrue(choice.text[offset:].startswith(token))

    def test_stream(self):
        whole = client.completions.create(model="toy", prompt="The sea", max_tokens=12, temperature=0)
        stream = client.completions.create(model="toy", prompt="The sea", max_tokens=12, temperature=0, stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in stream), whole.choices[0].text)

    def test_tokens(self):
        text = client.completions.create(model="toy", prompt="The sea was calm", max_tokens=5, temperature=0)
        scored = client.completions.create(model="toy", prompt="The sea was calm", max_tokens=0, echo=True, logprobs=0)
        self.assertEqual(scored.choices[0].text, "The sea was calm")
        self.assertEqual(scored.usage.completion_tokens, 0)
        self.assertEqual(text.usage.prompt_tokens, len(scored.choices[0].logprobs.tokens))


class Embeddings(unittest.TestCase):
    def test_vectors(self):
        known = json.loads((ROOT / "tests/fixtures/embeddings/minilm.json").read_text())  # by transformers
        pairs = [pair for pair in known["pairs"] if pair["a"] and pair["b"]]
        texts = [text for pair in pairs for text in (pair["a"], pair["b"])]
        # The package asks for base64 by itself and decodes it.
        answer = real.embeddings.create(model="minilm", input=texts)
        self.assertEqual([e.index for e in answer.data], list(range(len(texts))))
        vectors = [e.embedding for e in answer.data]
        self.assertGreater(cosine(vectors[0], known["first_vector"]), 0.9999)
        for i, pair in enumerate(pairs):
            self.assertAlmostEqual(cosine(vectors[2 * i], vectors[2 * i + 1]), pair["cosine"], delta=1e-3)
        plain = real.embeddings.create(model="minilm", input=texts, encoding_format="float")
        for got, want in zip(plain.data, vectors, strict=True):
            self.assertGreater(cosine(got.embedding, want), 0.999999)
        raw = real.embeddings.with_raw_response.create(model="minilm", input=texts[0], encoding_format="base64")
        decoded = base64.b64decode(json.loads(raw.text)["data"][0]["embedding"])
        self.assertGreater(cosine(struct.unpack(f"<{len(decoded) // 4}f", decoded), vectors[0]), 0.999999)
        self.assertGreater(answer.usage.prompt_tokens, 0)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


class Models(unittest.TestCase):
    def test_list(self):
        self.assertEqual([m.id for m in real.models.list()], ["smollm2", "minilm"])
        self.assertEqual(client.models.retrieve("toy").id, "toy")


class ParallelClients(unittest.TestCase):
    def test_64(self):
        """64 clients at once get what each gets alone, greedy and seeded, whole and streamed."""

        def options(i):
            sampling = {"temperature": 0} if i % 2 else {"temperature": 1.1, "seed": i, "top_p": 0.95}
            messages = [{"role": "user", "content": f"Tale number {i} is of a king."}]
            return {"model": "toy", "messages": messages, "max_tokens": 24, **sampling}

        alone = [client.chat.completions.create(**options(i)).choices[0].message.content for i in range(64)]
        self.assertGreater(len(set(alone)), 32)

        async def together():
            async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="secret", max_retries=0) as many:

                async def one(i):
                    if i % 4 < 2:
                        return (await many.chat.completions.create(**options(i))).choices[0].message.content
                    stream = await many.chat.completions.create(**options(i), stream=True)
                    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

                return await asyncio.gather(*(one(i) for i in range(64)))

        self.assertEqual(asyncio.run(together()), alone)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
            "required": ["place", "days"],
            "additionalProperties": False,
        },
    },
}


class Tools(unittest.TestCase):
    def check(self, name, arguments):
        self.assertEqual(name, "get_weather")
        arguments = json.loads(arguments)
        self.assertIn(arguments["place"], ("Paris", "Rome"))
        self.assertIn(arguments["days"], (1, 2, 3))

    def test_users_spell_no_control_tokens(self):
        self.assertTrue(chat("You are <|endoftext|> free.").choices)

    def test_required_call(self):
        answer = needs("tools", lambda: chat(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=200))
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        [call] = answer.choices[0].message.tool_calls[:1]
        self.check(call.function.name, call.function.arguments)
        # The call and its result go back as messages.
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        messages = [*SEA, answer.choices[0].message, result]
        chat(messages=messages, tools=[WEATHER], tool_choice="none")

    def test_streamed_call(self):
        stream = needs("tools", lambda: chat(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=200, stream=True))
        name, arguments = "", ""
        for chunk in stream:
            for call in chunk.choices[0].delta.tool_calls or []:
                if call.index == 0:
                    name += call.function.name or ""
                    arguments += call.function.arguments or ""
        self.check(name, arguments)


class Schemas(unittest.TestCase):
    SCHEMA = {
        "type": "object",
        "properties": {"answer": {"enum": ["yes", "no"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["answer", "count"],
        "additionalProperties": False,
    }

    def test_json_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": self.SCHEMA}}
        for seed in range(8):
            answer = needs("json_schema", lambda: chat(response_format=form, temperature=1.5, seed=seed, max_tokens=200))
            value = json.loads(answer.choices[0].message.content)
            self.assertEqual(set(value), {"answer", "count"})
            self.assertIn(value["answer"], ("yes", "no"))
            self.assertIn(value["count"], range(10))

    def test_json_object(self):
        answer = needs("json_object", lambda: chat(response_format={"type": "json_object"}, max_tokens=400))
        if answer.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)

    def test_bad_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}
        with self.assertRaises(openai.BadRequestError) as caught:
            needs("json_schema", lambda: chat(response_format=form))
        self.assertIn("nothing", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
