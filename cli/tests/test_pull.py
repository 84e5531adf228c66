"""`ember pull` and a hub on this machine that fails in all ways that hubs do."""

import hashlib
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from hub import COMMIT, Hub, checksum

EMBER = os.environ["EMBER"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
TALES = (ROOT / "examples/models/ember-tales.gguf").read_bytes()


class PullTest(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.home = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.home)
        self.repository = self.hub.repositories.setdefault("a/tales-GGUF", {"README.md": b"tales", "tales-Q8_0.gguf": TALES})
        self.folder = self.home / "hub/models--a--tales-GGUF"

    def ember(self, *arguments, code=0, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment |= {"HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.endpoint, "NO_PROXY": "127.0.0.1,localhost", **variables}
        done = subprocess.run([EMBER, *arguments], env=environment, capture_output=True, text=True, timeout=60, input="Hello\n", cwd=self.home)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def pull(self, *arguments, **rest):
        return self.ember("pull", *arguments, **rest)

    def refused(self, *arguments, code=1, **variables):
        """What a failure says, in one sentence on standard error."""
        done = self.pull(*arguments, code=code, **variables)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def gets(self, part="cdn"):
        return [asked for asked in self.hub.requests if asked[0] == "GET" and f"/{part}/" in asked[1]]

    def blob(self, data, name="x.gguf"):
        return self.folder / "blobs" / checksum(name, data)

    def test_a_model_is_fetched_once_and_found_by_its_name(self):
        first = self.pull("a/tales-GGUF")
        path = pathlib.Path(first.stdout.strip())
        self.assertEqual(path, self.folder / "snapshots" / COMMIT / "tales-Q8_0.gguf")
        self.assertEqual(path.read_bytes(), TALES)
        self.assertEqual(path.resolve(), self.blob(TALES).resolve())
        self.assertEqual(os.readlink(path), f"../../blobs/{checksum('x.gguf', TALES)}")
        self.assertEqual((self.folder / "refs/main").read_text(), COMMIT)
        self.assertEqual(sorted(os.listdir(self.folder / "blobs")), [checksum("x.gguf", TALES)])
        again = self.pull("a/tales-GGUF")
        self.assertEqual(again.stdout, first.stdout)
        self.assertIn("is there already", again.stderr)
        self.assertEqual(len(self.gets()), 1)
        said = self.ember("run", "a/tales-GGUF", "-p", "The sea was calm", "-n", "8", "--temp", "0")
        self.assertEqual(said.stdout, self.ember("run", str(path), "-p", "The sea was calm", "-n", "8", "--temp", "0").stdout)
        for name in ("a/tales-GGUF:q8_0", "hf.co/a/tales-GGUF", "a/tales-GGUF/tales-Q8_0.gguf"):
            self.assertIn('"supported":true', self.ember("inspect", "--json", name).stdout)
        missing = self.ember("inspect", "a/tales-GGUF:Q4_0", code=1).stderr
        self.assertIn("`ember pull a/tales-GGUF:Q4_0` fetches it", missing)

    def test_a_dropped_connection_goes_on_where_it_was(self):
        self.hub.quirks["drop"] = 3
        done = self.pull("a/tales-GGUF")
        self.assertEqual(pathlib.Path(done.stdout.strip()).read_bytes(), TALES)
        ranges = [asked[2] for asked in self.gets()]
        self.assertEqual(len(ranges), 4)
        self.assertIsNone(ranges[0])
        firsts = [int(asked.removeprefix("bytes=").removesuffix("-")) for asked in ranges[1:]]
        self.assertEqual(firsts, sorted(firsts))
        self.assertEqual(firsts[0], len(TALES) // 2)

    def test_what_an_earlier_attempt_left_is_gone_on_with(self):
        partial = self.blob(TALES).with_name(self.blob(TALES).name + ".incomplete")
        partial.parent.mkdir(parents=True)
        partial.write_bytes(TALES[:1_000_000])
        done = self.pull("a/tales-GGUF")
        self.assertEqual(pathlib.Path(done.stdout.strip()).read_bytes(), TALES)
        self.assertEqual([asked[2] for asked in self.gets()], ["bytes=1000000-"])
        self.assertFalse(partial.exists())

    def test_a_wrong_part_of_an_earlier_attempt_is_fetched_again(self):
        partial = self.blob(TALES).with_name(self.blob(TALES).name + ".incomplete")
        partial.parent.mkdir(parents=True)
        for wrong in (b"x" * 1000, b"x" * len(TALES), b"x" * (len(TALES) + 1)):
            partial.write_bytes(wrong)
            done = self.pull("a/tales-GGUF")
            self.assertEqual(pathlib.Path(done.stdout.strip()).read_bytes(), TALES)
            self.blob(TALES).unlink()

    def test_a_server_without_ranges_sends_all_of_it_again(self):
        self.hub.quirks.update({"drop": 1, "no ranges": True})
        done = self.pull("a/tales-GGUF")
        self.assertEqual(pathlib.Path(done.stdout.strip()).read_bytes(), TALES)
        self.assertEqual([asked[2] for asked in self.gets()], [None, f"bytes={len(TALES) // 2}-"])

    def test_an_answer_that_is_no_file_is_not_taken_for_it(self):
        self.hub.quirks.update({"drop": 1, "out of range": 1})
        self.assertIn("the hub answers 416", self.refused("a/tales-GGUF"))
        self.assertEqual(pathlib.Path(self.pull("a/tales-GGUF").stdout.strip()).read_bytes(), TALES)

    def test_a_wrong_checksum_leaves_nothing(self):
        self.hub.quirks["wrong"] = "tales-Q8_0.gguf"
        said = self.refused("a/tales-GGUF")
        wrong = hashlib.sha256(bytes([TALES[0] ^ 1]) + TALES[1:]).hexdigest()
        self.assertIn(f"a/tales-GGUF/tales-Q8_0.gguf: its checksum is {wrong}, but the hub's is {checksum('x.gguf', TALES)}", said)
        self.assertEqual(os.listdir(self.folder / "blobs"), [])
        self.assertFalse((self.folder / "refs/main").exists())
        self.assertIn("`ember pull a/tales-GGUF` fetches it", self.ember("inspect", "a/tales-GGUF", code=1).stderr)

    def test_more_bytes_than_the_hub_says_are_refused(self):
        self.hub.quirks["longer"] = "tales-Q8_0.gguf"
        self.assertIn("more bytes come than", self.refused("a/tales-GGUF"))

    def test_a_busy_or_sick_hub_is_asked_again(self):
        self.hub.quirks.update(busy=1, sick=1)
        said = self.pull("a/tales-GGUF").stderr
        self.assertIn("429", said)
        self.assertIn("trying again in 1.0 s", said)
        self.assertIn("503", said)
        self.hub.quirks["patience"] = 3600
        self.assertIn("it may be asked again in 3600 s", self.refused("a/tales-GGUF"))

    def test_refusals_say_what_to_do(self):
        self.assertIn("there is no such model, or only for those who say who they are", self.refused("b/none"))
        self.assertIn("or not for this HF_TOKEN", self.refused("b/none", HF_TOKEN="wrong"))
        self.hub.repositories["gated/x"] = {"x.gguf": TALES}
        self.assertIn(f"ask at {self.hub.endpoint}/gated/x; HF_TOKEN", self.refused("gated/x"))
        self.assertIn("revision v9: the hub does not have it (Invalid rev id)", self.refused("a/tales-GGUF", "--revision", "v9"))
        self.assertIn("a/tales-GGUF: there is no file y.gguf", self.refused("a/tales-GGUF", "y.gguf"))
        self.assertIn("no GGUF file is called Q4_0: tales-Q8_0.gguf", self.refused("a/tales-GGUF:Q4_0"))
        self.assertIn('"tales" is no OWNER/NAME', self.refused("tales", code=2))
        self.assertIn("which is no http or https address", self.refused("a/b", HF_ENDPOINT="ftp://x"))
        self.assertIn("HF_HUB_OFFLINE is set", self.refused("a/b", HF_HUB_OFFLINE="1"))
        self.hub.quirks["circle"] = True
        self.assertIn("it is moved too often", self.refused("a/tales-GGUF"))

    def test_a_hub_that_is_not_there(self):
        self.assertIn("ember: http://host.invalid", self.refused("a/b", HF_ENDPOINT="http://host.invalid"))

    def test_a_token_goes_to_the_hub_alone(self):
        self.hub.repositories["gated/x"] = {"x.gguf": TALES}
        self.pull("gated/x", HF_TOKEN="secret")
        for method, path, _, authorization, host in self.hub.requests:
            self.assertEqual(authorization, None if "/cdn/" in path else "Bearer secret", path)
            self.assertEqual(host, "localhost" if "/cdn/" in path else "127.0.0.1")
        (self.home / "token").write_text("secret\n")
        self.hub.requests.clear()
        self.pull("gated/x")
        self.assertEqual(self.hub.requests[0][3], "Bearer secret")

    def test_a_terse_hub_says_the_rest_when_asked(self):
        self.hub.quirks["terse"] = True
        self.repository["config.json"] = b"{}"
        done = self.pull("a/tales-GGUF")
        self.assertEqual(pathlib.Path(done.stdout.strip()).read_bytes(), TALES)
        self.assertIn("HEAD", [asked[0] for asked in self.hub.requests])
        done = self.pull("a/tales-GGUF", "config.json")
        self.assertEqual(pathlib.Path(done.stdout.strip()).read_bytes(), b"{}")

    def test_all_parts_of_a_split_file_are_fetched(self):
        numbers = random.Random(1)
        parts = {f"Q4_0/m-{i:05}-of-00003.gguf": numbers.randbytes(1000 * i) for i in (1, 2, 3)}
        self.hub.repositories["a/split"] = {**parts, "m-Q8_0.gguf": b"other"}
        for wanted in (("a/split:Q4_0",), ("a/split", "Q4_0/m-00002-of-00003.gguf")):
            path = pathlib.Path(self.pull(*wanted).stdout.strip())
            self.assertEqual(path.name, "m-00001-of-00003.gguf")
            self.assertEqual({f"Q4_0/{one.name}": one.read_bytes() for one in path.parent.iterdir()}, parts)
        del self.hub.repositories["a/split"]["Q4_0/m-00003-of-00003.gguf"]
        self.assertIn("part 3 of 3 of Q4_0/m.gguf is not there", self.refused("a/split:Q4_0"))

    def test_a_folder_comes_whole(self):
        index = b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
        wanted = {
            "config.json": b'{"model_type": "x"}', "tokenizer.json": b"{}", "model.safetensors.index.json": index, "vocab.txt": b"a",
            "model-00001-of-00002.safetensors": b"one", "model-00002-of-00002.safetensors": b"two", "1_Pooling/config.json": b"{}",
        }
        left = {"README.md": b"x", "pytorch_model.bin": b"x", "onnx/model.onnx": b"x", "consolidated.safetensors": b"x"}
        self.hub.repositories["a/folder"] = {**wanted, **left}
        path = pathlib.Path(self.pull("https://huggingface.co/a/folder").stdout.strip())
        self.assertEqual(path, self.home / "hub/models--a--folder/snapshots" / COMMIT)
        got = {one.relative_to(path).as_posix(): one.read_bytes() for one in path.rglob("*") if one.is_file()}
        self.assertEqual(got, wanted)
        # It is found, and it is the library that says what is wrong with it.
        self.assertIn(str(path), self.ember("run", "a/folder", "-p", "x", code=1).stderr)

    def test_names_of_files_stay_in_the_folder(self):
        self.repository["../../../evil.gguf"] = TALES
        self.pull("a/tales-GGUF")
        self.assertEqual(list(self.home.rglob("evil*")), [])

    def test_names_with_spaces_and_umlauts(self):
        self.hub.repositories["a/ü"] = {}
        name = "ein Märchen #1.gguf"
        self.hub.repositories["a/b"] = {name: TALES}
        self.assertEqual(pathlib.Path(self.pull("a/b", name, "--revision", "refs/pr/1").stdout.strip()).read_bytes(), TALES)
        self.assertEqual((self.home / "hub/models--a--b/refs/refs/pr/1").read_text(), COMMIT)

    def test_a_list_fetches_nothing(self):
        done = self.pull("a/tales-GGUF", "--list")
        self.assertEqual([line.split() for line in done.stdout.splitlines()], [["5", "B", "README.md"], ["3.2", "MB", "tales-Q8_0.gguf"]])
        self.assertFalse(self.folder.exists())

    def test_two_at_a_time_fetch_it_once(self):
        environment = {**os.environ, "HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.endpoint, "NO_PROXY": "127.0.0.1,localhost"}
        both = [subprocess.Popen([EMBER, "pull", "-q", "a/tales-GGUF"], env=environment, stdout=subprocess.PIPE) for _ in range(2)]
        paths = {one.communicate(timeout=60)[0] for one in both}
        self.assertEqual([one.returncode for one in both], [0, 0])
        self.assertEqual(len(paths), 1)
        self.assertEqual(len(self.gets()), 1)

    def test_the_commands_of_the_pages_run(self):
        name, file = "bartowski/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct-Q8_0.gguf"
        self.hub.repositories[name] = {file: pathlib.Path(os.environ["SMOLLM2"]).read_bytes()}
        for model in ("model.gguf", "your.gguf"):
            (self.home / model).write_bytes(TALES)
        n = 0
        for page in ("README.md", "docs/command-line.md"):
            for block in re.findall(r"(?ms)^```sh\n(.*?)^```$", (ROOT / page).read_text()):
                for line in block.splitlines():
                    words = shlex.split(line, comments=True)
                    if words[:1] == ["ember"]:
                        self.ember(*words[1:])
                        n += 1
        self.assertGreaterEqual(n, 6)

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl, which makes a certificate")
    def test_certificates_are_checked(self):
        pem = self.home / "pem"
        made = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1",
             "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(pem) + ".key", "-out", str(pem) + ".crt"],
            capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        pem.write_text(pathlib.Path(f"{pem}.key").read_text() + pathlib.Path(f"{pem}.crt").read_text())
        http, self.hub = self.hub, Hub(str(pem))
        self.addCleanup(self.hub.close)
        self.hub.repositories = http.repositories
        said = self.refused("a/tales-GGUF")
        self.assertIn("certificate", said)
        self.assertEqual(said.count("\n"), 1, said)
        done = self.pull("a/tales-GGUF", SSL_CERT_FILE=f"{pem}.crt")
        self.assertEqual(pathlib.Path(done.stdout.strip()).read_bytes(), TALES)
        self.blob(TALES).unlink()
        self.hub.quirks["elsewhere"] = "http://127.0.0.1:1/x"
        self.assertIn("which is not encrypted", self.refused("a/tales-GGUF", SSL_CERT_FILE=f"{pem}.crt"))


if __name__ == "__main__":
    unittest.main()
