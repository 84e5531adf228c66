"""The program as people and other programs use it, with the bundled model, SmolLM2 and MiniLM."""

import json
import math
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest

EMBER, SMOLLM2, MINILM = os.environ["EMBER"], os.environ["SMOLLM2"], os.environ["MINILM"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
TALES = str(ROOT / "examples/models/ember-tales.gguf")
SEA = "The sea was calm, and the moon"


def ember(*arguments, text=None, code=0):
    done = subprocess.run([EMBER, *arguments], input=text, stdin=None if text is not None else subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stderr}"
    return done


class Terminal:
    """The program on a terminal."""

    def __init__(self, *arguments):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.environ["TERM"] = "xterm"
            os.execv(EMBER, [EMBER, *arguments])
        self.shown = ""

    def expect(self, pattern):
        """Reads on until a pattern is there, and gives what was read up to its end."""
        end = time.monotonic() + 60
        while not (found := re.search(pattern, self.shown)):
            if not select.select([self.terminal], [], [], max(end - time.monotonic(), 0))[0]:
                raise AssertionError(f"{pattern} does not come: {self.shown!r}")
            try:
                self.shown += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"{pattern} does not come, and the program has ended: {self.shown!r}") from None
        before, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return before

    def type(self, text):
        os.write(self.terminal, text.encode())

    def end(self):
        """The exit code."""
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


class RunTest(unittest.TestCase):
    def test_a_prompt_comes_from_where_it_may(self):
        likeliest = ("--temp", "0", "-n", "12")
        given = ember("run", TALES, "-p", SEA, *likeliest).stdout
        self.assertTrue(given.endswith("\n") and len(given) > 20)
        self.assertEqual(ember("run", TALES, *likeliest, text=SEA + "\n").stdout, given)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(SEA + "\n")
            file.flush()
            self.assertEqual(ember("run", TALES, "-f", file.name, *likeliest).stdout, given)
        self.assertEqual(ember("run", TALES, "-p", SEA, "--echo", *likeliest).stdout, SEA + given)

    def test_a_seed_repeats_a_text(self):
        texts = [ember("run", TALES, "-p", SEA, "--seed", seed, "-n", "40", "-t", threads).stdout for seed, threads in (("7", "1"), ("7", "2"), ("8", "1"))]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        said = ember("run", TALES, "-p", SEA, "-v", "-n", "40").stderr
        seed = re.search(r"seed (\d+)$", said)[1]
        self.assertRegex(said, r"^prompt \d+ tokens, [\d.]+ tokens/s \| generated 40 tokens, [\d.]+ tokens/s \| -n allows no more tokens")
        self.assertEqual(ember("run", TALES, "-p", SEA, "--seed", seed).stdout, ember("run", TALES, "-p", SEA, "--seed", seed).stdout)

    def test_options_of_sampling_are_followed(self):
        greedy = ember("run", TALES, "-p", SEA, "--temp", "0", "-n", "30").stdout
        for option in (("--top-k", "1"), ("--top-p", "0.0001"), ("--min-p", "1")):
            self.assertEqual(ember("run", TALES, "-p", SEA, *option, "-n", "30").stdout, greedy, option)
        self.assertNotEqual(ember("run", TALES, "-p", SEA, "--temp", "0", "-n", "30", "--repeat-penalty", "5").stdout, greedy)
        word = greedy.split()[3]
        self.assertEqual(ember("run", TALES, "-p", SEA, "--temp", "0", "-n", "30", "--stop", word).stdout.rstrip(), greedy[: greedy.index(word)].rstrip())

    def test_json_follows_its_schema_or_fails(self):
        schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump(schema, file)
            file.flush()
            given = ("run", SMOLLM2, "-p", "The capital of Italy as JSON: ", "-j", file.name, "--temp", "0")
            self.assertIn(json.loads(ember(*given).stdout)["city"], ("Paris", "Rome"))
            self.assertIn("the JSON is not complete: -n allows no more tokens", ember(*given, "-n", "2", code=1).stderr)
        self.assertIn("No such file", ember("run", TALES, "-p", "x", "-j", "/none", code=1).stderr)

    def test_an_interrupt_ends_the_text(self):
        with subprocess.Popen([EMBER, "run", SMOLLM2, "-p", SEA, "-n", "-1", "--temp", "0"], stdout=subprocess.PIPE, text=True) as child:
            begun = child.stdout.read(20)
            child.send_signal(signal.SIGINT)
            rest = child.communicate(timeout=30)[0]
        self.assertEqual(child.returncode, 130)
        self.assertTrue(rest.endswith("\n"), begun + rest)

    def test_a_reader_may_go(self):
        with subprocess.Popen([EMBER, "run", SMOLLM2, "-p", SEA, "-n", "-1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            child.stdout.read(1)
            child.stdout.close()
            self.assertEqual(child.stderr.read(), b"")
            self.assertEqual(child.wait(timeout=30), 1)

    def test_errors_are_sentences(self):
        self.assertIn("a prompt is needed: -p TEXT, -f FILE, or text on standard input", Terminal("run", TALES).expect(r"standard input"))
        self.assertEqual(ember("run", "none.gguf", "-p", "x", code=1).stderr, "ember: none.gguf: there is no such file or folder\n")
        self.assertIn("this is not a GGUF file", ember("run", str(ROOT / "README.md"), "-p", "x", code=1).stderr)
        self.assertIn("a similar argument exists: '--temp'", ember("run", TALES, "--tmep", "1", code=2).stderr)
        self.assertIn("it is no number", ember("run", TALES, "--temp", "NaN", code=2).stderr)
        self.assertIn("top-p", ember("run", TALES, "-p", "x", "--top-p", "2", code=1).stderr)
        ember("walk", code=2)
        ember(code=2)


class ChatTest(unittest.TestCase):
    ITALY = "Name the capital of Italy."

    def test_one_message_is_answered(self):
        said = ember("chat", SMOLLM2, "-p", self.ITALY, "--temp", "0")
        self.assertIn("Rome", said.stdout)
        self.assertEqual(said.stderr, "")
        self.assertIn("Rome", ember("chat", SMOLLM2, "--temp", "0", text="Name the capital\nof Italy.\n").stdout)
        self.assertEqual(ember("chat", SMOLLM2, "--temp", "0", text=self.ITALY + "\n").stdout, said.stdout)

    def test_lines_are_a_conversation(self):
        said = ember("chat", SMOLLM2, "--lines", "-v", "--temp", "0", "-n", "10", text=f"{self.ITALY}\n\nAre you sure?\n")
        found = re.findall(r"prompt (\d+) tokens, (\d+) of them new", said.stderr)
        self.assertEqual(len(found), 2)
        self.assertEqual(found[0][0], found[0][1])
        self.assertLess(int(found[1][1]), int(found[1][0]) // 2)
        self.assertIn("ember: the reply is cut off: -n allows no more tokens", said.stderr)

    def test_system_text_and_template_are_followed(self):
        def n_prompt(*options):
            return int(re.search(r"prompt (\d+) tokens", ember("chat", SMOLLM2, "-p", "Hi", "-v", "-n", "1", *options).stderr)[1])

        self.assertGreater(n_prompt("--system", "You answer in rhymes. " * 20), n_prompt() + 80)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("{{ messages[0].content }}")
            file.flush()
            self.assertEqual(n_prompt("--template", file.name), 1)
        self.assertIn("template", ember("chat", TALES, "-p", "Hi", code=1).stderr)
        self.assertIn("thinking", ember("chat", SMOLLM2, "-p", "Hi", "--thinking", "on", code=1).stderr)

    def test_a_person_talks(self):
        chat = Terminal("chat", SMOLLM2, "--temp", "0", "-v", "-n", "200")
        chat.expect(r"> ")
        chat.type("Name the capital \\\rof Italy.\r")
        chat.expect(r"Rome.*\n(.*\n)*prompt \d+ tokens")
        chat.expect(r"> ")
        # Lines that are pasted are one message.
        chat.type("\x1b[200~One\nTwo\nThree\x1b[201~")
        chat.type("\r")
        chat.expect(r"prompt \d+ tokens")
        chat.expect(r"> ")
        chat.type("/nonsense\r")
        chat.expect(r"there is no command /nonsense")
        chat.expect(r"> ")
        chat.type("/reset\r")
        chat.expect(r"> ")
        # The system's text, the message, and nothing of the messages before.
        chat.type(f"{self.ITALY}\r")
        n = int(re.search(r"prompt (\d+) tokens", chat.expect(r"prompt \d+ tokens"))[1])
        self.assertLess(n, 50)
        chat.expect(r"> ")
        # Ctrl-C ends the reply, and at the prompt a line; the program goes on.
        chat.type("Tell me a very long story about the sea.\r")
        chat.expect(r"sea\.[^\n]*\n.{20}")
        chat.type("\x03")
        chat.expect(r"interrupted \| seed")
        chat.expect(r"> ")
        chat.type("half a line\x03")
        chat.expect(r"> ")
        chat.type("/undo\r")
        chat.expect(r"> ")
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)

    def test_a_template_is_needed(self):
        self.assertIn("ember: ", Terminal("chat", TALES).expect(r"template"))


class OtherTest(unittest.TestCase):
    def test_vectors_are_those_of_their_texts(self):
        def vectors(*arguments, text=None):
            lines = [json.loads(line) for line in ember("embed", MINILM, *arguments, text=text).stdout.splitlines()]
            self.assertEqual([line["index"] for line in lines], list(range(len(lines))))
            return [line["embedding"] for line in lines]

        cat, kitten, market = vectors("a cat", "a kitten", "the stock market")
        dot = lambda one, other: sum(map(lambda x, y: x * y, one, other))
        self.assertEqual(len(cat), 384)
        self.assertAlmostEqual(dot(cat, cat), 1, 5)
        self.assertGreater(dot(cat, kitten), dot(cat, market) + 0.3)
        texts = [f"text number {i}" for i in range(150)]
        many = vectors(text="".join(f"{text}\n" for text in texts))
        self.assertEqual(len(many), 150)
        self.assertLess(math.dist(many[149], vectors(texts[149])[0]), 1e-5)
        short = vectors("--dimensions", "3", "a cat")[0]
        length = math.hypot(*cat[:3])
        for got, expected in zip(short, cat, strict=False):
            self.assertAlmostEqual(got, expected / length, 5)
        self.assertGreater(math.dist(vectors("--pooling", "cls", "a cat")[0], cat), 0.1)
        self.assertNotAlmostEqual(math.hypot(*vectors("--normalize", "false", "a cat")[0]), 1, 2)
        self.assertIn("has no prompt called", ember("embed", MINILM, "--prompt", "none", "a", code=1).stderr)
        too_long = "word " * 1000
        self.assertIn("text", ember("embed", MINILM, too_long, code=1).stderr)
        self.assertEqual(len(vectors("--truncate", too_long)), 1)

    def test_measurements(self):
        found = json.loads(ember("bench", TALES, "-p", "32", "-n", "8", "-r", "2", "-t", "2", "--json").stdout)
        self.assertEqual([(one["test"], one["n_tokens"], one["repetitions"]) for one in found["results"]], [("prompt", 32, 2), ("generate", 8, 2)])
        self.assertEqual(found["n_threads"], 2)
        for one in found["results"]:
            self.assertLess(0, one["min"])
            self.assertTrue(one["min"] <= one["tokens_per_second"] <= one["max"])
        self.assertRegex(ember("bench", TALES, "-p", "16", "-n", "0", "-r", "1").stdout, r"(?m)^prompt +16 +[\d.]+ ")
        self.assertEqual([one["test"] for one in json.loads(ember("bench", MINILM, "-p", "16", "-r", "1", "--json").stdout)["results"]], ["embed"])
        self.assertIn("generates nothing", ember("bench", MINILM, "-p", "0", code=1).stderr)
        ember("bench", TALES, "-p", "0", "-n", "0", code=2)

    def test_descriptions(self):
        found = json.loads(ember("inspect", "--json", SMOLLM2).stdout)
        self.assertEqual((found["architecture"], found["supported"]), ("llama", True))
        self.assertGreater(found["memory"]["weights"], 90e6)
        larger = json.loads(ember("inspect", "--json", SMOLLM2, "-c", "8192").stdout)["memory"]["kv"]
        self.assertGreater(larger, found["memory"]["kv"] * 1.9)
        printed = ember("inspect", SMOLLM2).stdout
        self.assertRegex(printed, r"(?m)^supported +yes$")
        self.assertIn("for a context of 4096 tokens", printed)
        template = ember("inspect", "--template", SMOLLM2).stdout
        self.assertEqual(template, found["metadata"]["tokenizer.chat_template"])
        ember("inspect", "--template", TALES, code=1)
        self.assertRegex(ember("inspect", MINILM).stdout, r"(?m)^kind +an encoder")

    def test_what_is_not_supported_is_described(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.gguf"
            key = b"general.architecture\x08\0\0\0\x04\0\0\0\0\0\0\0"
            path.write_bytes(pathlib.Path(TALES).read_bytes().replace(key + b"gpt2", key + b"\x1b[2J"))
            printed = ember("inspect", str(path)).stdout
            self.assertRegex(printed, r"(?m)^supported +no: .*architecture")
            self.assertNotIn("\x1b", printed)

            quantized = pathlib.Path(folder) / "quantized"
            quantized.mkdir()
            config = {"model_type": "qwen3", "quantization_config": {"quant_method": "awq"}}
            (quantized / "config.json").write_text(json.dumps(config))
            printed = ember("inspect", str(quantized)).stdout
            self.assertRegex(printed, r"(?m)^supported +no: .*quantized by .awq.")
            self.assertNotIn("null", printed)

    def test_a_wrong_variable_is_no_fault_of_the_model(self):
        done = subprocess.run([EMBER, "inspect", SMOLLM2], env={**os.environ, "EMBER_ISA": "sse9"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn('EMBER_ISA is "sse9"', done.stderr)
        self.assertNotIn("supported ", done.stdout)

    def test_files_are_quantized(self):
        with tempfile.TemporaryDirectory() as folder:
            f16, q4 = f"{folder}/f16.gguf", f"{folder}/q4.gguf"
            self.assertIn("--allow-requantize", ember("quantize", TALES, f16, "F16", code=1).stderr)
            self.assertEqual(os.listdir(folder), [])
            ember("quantize", "--allow-requantize", TALES, f16, "f16")
            ember("quantize", f16, q4, "Q4_K_M")
            types = json.loads(ember("inspect", "--json", q4).stdout)
            self.assertEqual(types["metadata"]["general.file_type"], 15)
            # Rows of 192 are no blocks of 256, those of 768 are.
            self.assertEqual(set(types["types"]), {"F32", "Q4_K", "Q5_0", "Q5_1", "Q6_K", "Q8_0"})
            self.assertGreater(len(ember("run", q4, "-p", SEA, "-n", "8", "--temp", "0").stdout.split()), 3)
            self.assertIn("it is there already", ember("quantize", f16, q4, "Q8_0", code=1).stderr)
            ember("quantize", "-f", f16, q4, "Q8_0")
            self.assertIn("is no format to write; known are", ember("quantize", f16, q4, "Q9", code=2).stderr)
            self.assertIn("it is a folder", ember("quantize", MINILM, q4, "Q8_0", "-f", code=1).stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["f16.gguf", "q4.gguf"])

    def test_versions_and_help(self):
        self.assertRegex(ember("--version").stdout, r"^ember \d+\.\d+\.\d+\nlibember: \d+\.\d+\.\d+\narchitectures: ")
        commands = re.findall(r"(?m)^  ([a-z]+) ", ember("--help").stdout.split("Options:")[0])
        self.assertEqual(commands, ["run", "chat", "embed", "bench", "quantize", "inspect", "pull"])
        for command in commands:
            self.assertRegex(ember(command, "--help").stdout, rf"Usage: ember {command} ")
        page = (ROOT / "docs/command-line.md").read_text()
        for command in commands:
            self.assertIn(f"`ember {command}", page)


if __name__ == "__main__":
    unittest.main()
