#!/usr/bin/env python3
"""Checks the prose of this repository: links, lengths, long sentences and words that have a plainer name, these in the comments of
source files too.

    scripts/prose.py [--count]

--count prints how many sentences each page has and how many words the longest has. Exceptions stand in EXCEPTIONS, with reasons.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_LINES = {"README.md": 150, "ARCHITECTURE.md": 250, "CHANGELOG.md": 120, "bench/README.md": 120, "SECURITY.md": 110}
MOST_WORDS = 40

# Words of Ember's own for things that have names, and the name.
BANNED = [
    (r"\bpurses?\b", "memory limit"),
    (r"\b(no|of|for|needs?|has|have|the|more|whose|out of) room\b|\broom (for|is|was|in|that)\b", "capacity, free pages"),
    (r"\bbehind [\d,]+ (tokens|others|positions)\b", "at depth N"),
    (r"\b(two|three|four|six|eight|sixteen|\d+) at once\b", "a batch of N"),
    (r"\bturn(ed|ing|s)? back\b|\bkeys (are|is|were) turned\b|\bturn(ed|ing|s)? (a|the|its) token\b", "re-rotated, cancelled"),
    (r"\bguess(es|ed|ing)?\b", "draft tokens"),
    (r"\b(is|are|was|were|be) told\b|\btold (twice|by|apart|below)\b", "reported, distinguished"),
    (r"\bmend(s|ed|ing)?\b", "fixed"),
    (r"\bc(o|a)mes? true\b", "accepted"),
    (r"\b(in|of|into) pieces\b|\bquads?\b|\bstrips?\b", "chunks, blocks"),
    (r"\bcomes? from nobody\b|\bby chance\b", "random"),
    (r"\b(before|since|until) (?=[0-9a-f]*\d)[0-9a-f]{7,8}\b", "what is; history goes into commits"),
]

# The same in the comments of source files, where quads and strips are parts of packed weights.
BANNED_IN_COMMENTS = [pair for pair in BANNED if "quads" not in pair[0]] + [
    (r"\brooms?\b", "capacity, space, free pages, a buffer"),
    (r"\bbehind\b", "after, at depth N"),
    (r"\btold\b", "reported, given"),
    (r"\bwhole numbers?\b(?! of)", "integers"),
]

# Page, a part of the text, and why it may stay.
EXCEPTIONS = [
    ("examples/models/prepare_data.py", "drawing-room novels", "a kind of novels"),
]

# What is checked for words and sentences. What tests write is among them; what keeps earlier results is not.
PAGES = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md", "docs/**/*.md",
         "bindings/**/README.md", "packaging/**/*.md", "tests/**/*.md", "examples/**/*.md"]
NOT_PROSE = {"docs/history.md", "bench/history.md", "docs/SUMMARY.md"}
SKIPPED = {"target", "build", "node_modules", "found", ".git", ".build"}

# How other languages than Rust write comments, whose text is a group. Strings have none: they may have what looks like a comment.
STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
SLASHES = re.compile(rf"//+([^\n]*)|/\*+(.*?)\*/|{STRING}|`[^`]*`", re.DOTALL)
PYTHON = re.compile(rf'#([^\n]*)|^[ \t]*"""(.*?)"""|""".*?"""|{STRING}', re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"(?:^|(?<=\s))#([^\n]*)", re.MULTILINE)
COMMENTS = {".py": PYTHON, ".sh": SHELL} | dict.fromkeys(
    [".c", ".h", ".cpp", ".hpp", ".go", ".swift", ".java", ".mjs", ".ts", ".cs"], SLASHES)


def pages():
    for page in sorted(ROOT.rglob("*.md")):
        name = page.relative_to(ROOT)
        if not SKIPPED & set(name.parts):
            yield str(name), page.read_text(encoding="utf-8")


def without_code(text):
    """The text with blocks of code left empty, so that lines keep their numbers: those in fences, and those that are set in after an
    empty line."""
    fenced, lines = False, []
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        is_set_in = line.startswith("    ") and not (lines and lines[-1])
        lines.append("" if fenced or is_fence or is_set_in else line)
        fenced ^= is_fence
    return lines


def anchors(text):
    """The anchors of a page's headings, as GitHub and mdbook make them."""
    found, seen = set(), {}
    for line in without_code(text):
        heading = re.match(r"#+\s+(.*)", line)
        if heading:
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
            found.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
            seen[slug] = seen.get(slug, 0) + 1
    return found


def check_links(texts, complain):
    known = {name: anchors(text) for name, text in texts.items()}
    for name, text in texts.items():
        for number, line in enumerate(without_code(text), 1):
            plain = re.sub(r"`[^`]*`", "", line)
            for target in re.findall(r"\]\(([^)\s]+)\)", plain):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = (ROOT / name).parent / path if path else ROOT / name
                if not file.exists():
                    complain(name, number, f"the link to {target} leads nowhere")
                    continue
                page = str(file.resolve().relative_to(ROOT))
                if anchor and page in known and anchor not in known[page]:
                    complain(name, number, f"{page} has no heading #{anchor}")


def paragraphs(lines):
    """(line, text) of each paragraph, item of a list and cell of a table."""
    start, text = 0, ""
    for number, line in enumerate(lines, 1):
        stripped = line.strip().lstrip("> ")
        begins = re.match(r"([-*+]|\d+\.)\s|#|\|", stripped)
        if not stripped or begins:
            if text:
                yield start, text
            text = ""
        if stripped.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                yield number, cell.strip()
        elif stripped:
            start = start if text else number
            text += " " + re.sub(r"^(([-*+]|\d+\.)\s+|#+\s*)", "", stripped)
    if text:
        yield start, text


def sentences(text):
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    found = re.split(r"(?<=[.!?])[)\"”]?\**\s+(?=[A-Z*(\"“\d])", text)
    # "Errors: A when …; B when …" is a list, whose items are sentences.
    return [item for one in found for item in (one.split(";") if one.strip().startswith("Errors") else [one])]


def is_list(text):
    """Whether a text is names with commas between them, which is no sentence."""
    return all(len(name.split()) <= 3 for name in text.strip(".").split(","))


def header_lines():
    """The header's comments as Markdown, without code: each begins with an empty line."""
    lines, inside, code = [], False, False
    for line in (ROOT / "include/ember.h").read_text(encoding="utf-8").split("\n"):
        stripped = line.strip()
        if stripped.startswith("/*"):
            inside = True
            comment = re.sub(r"^/\*+\s?|\s*\*/$", "", stripped)
        elif inside:
            comment = re.sub(r"^\*(?!/)\s?|\s*\*/$|^\*/$", "", stripped)
        else:
            comment = ""
        code = (code or comment.startswith("@code")) and not comment.startswith("@endcode")
        is_group = re.match(r"@(defgroup|endcode|[{}])|=+$", comment)
        lines.append("" if code or is_group else re.sub(r"^\s*@(param \w+|return)\b", "- ", comment))
        if stripped.endswith("*/"):
            inside = False
    return lines


def rust_comments(lines):
    """(line, text) of each comment: lines of comments that follow each other are one."""
    start, text = 0, ""
    for number, line in enumerate([*lines, ""], 1):
        comment = re.match(r"\s*//[/!]?(.*)", line)
        if comment:
            start = start if text else number
            text += " " + comment[1].strip()
            continue
        if text.strip():
            yield start, text
        text = ""
        # After code. A "//" in a text has an odd number of quotes before it, or no space around it.
        aside = re.search(r"\s//\s(.*)", line)
        if aside and line[: aside.start()].count('"') % 2 == 0:
            yield number, aside[1]


def other_comments(pattern, text):
    """(line, text) of each comment and doc string that a pattern of COMMENTS finds: those on lines that follow each other are one."""
    last, start, joined, at, number = -1, 0, "", 0, 1
    for found in pattern.finditer(text):
        comment = next((group for group in found.groups() if group), "")
        if not comment:
            continue
        number, at = number + text.count("\n", at, found.start()), found.start()
        if number > last + 1:
            if joined:
                yield start, joined
            start, joined = number, ""
        joined += " " + re.sub(r"\s+\*?\s*", " ", comment)
        last = number + comment.count("\n")
    if joined:
        yield start, joined


def sources():
    """(name, its text) of each file in a language that COMMENTS has, or in Rust."""
    for folder in ["src", "header", "tests", "examples", "fuzz", "cli", "bench", "bindings", "packaging", "scripts"]:
        for path in sorted((ROOT / folder).rglob("*.*")):
            name = path.relative_to(ROOT)
            if (path.suffix == ".rs" or path.suffix in COMMENTS) and not SKIPPED & set(name.parts) and name.parts[1] != "golden":
                yield str(name), path.read_text(encoding="utf-8")


def comments_of(name, text):
    suffix = pathlib.PurePath(name).suffix
    return rust_comments(text.split("\n")) if suffix == ".rs" else other_comments(COMMENTS[suffix], text)


def main():
    bad, texts = [], dict(pages())
    used = set()

    def complain(name, number, what, text=""):
        for exception in EXCEPTIONS:
            page, part, _ = exception
            if page == name and part in text:
                used.add(exception)
                return
        bad.append(f"{name}:{number}: {what}")

    check_links(texts, complain)
    for name, most in MOST_LINES.items():
        n = len(texts[name].splitlines())
        if n > most:
            complain(name, n, f"{n} lines, at most {most}")
    prose = {str(p.relative_to(ROOT)) for pattern in PAGES for p in ROOT.glob(pattern)} & set(texts) - NOT_PROSE
    bodies = {name: without_code(texts[name]) for name in prose} | {"include/ember.h": header_lines()}
    for name, lines in sorted(bodies.items()):
        counts = []
        for number, text in paragraphs(lines):
            plain = re.sub(r"`[^`]*`", "CODE", text)
            for pattern, instead in BANNED:
                for word in re.finditer(pattern, plain, re.IGNORECASE):
                    complain(name, number, f'"{word[0]}": better {instead}', text)
            for sentence in sentences(text):
                n = len(sentence.split())
                counts.append(n)
                if n > MOST_WORDS and not is_list(sentence):
                    complain(name, number, f"a sentence of {n} words: {sentence.strip()[:60]}…", text)
        if "--count" in sys.argv and counts:
            print(f"{name}: {len(counts)} sentences, the longest has {max(counts)} words")
    any_banned = re.compile("|".join(pattern for pattern, _ in BANNED_IN_COMMENTS), re.IGNORECASE)
    for name, source in sources():
        for number, text in comments_of(name, source):
            for pattern, instead in BANNED_IN_COMMENTS if any_banned.search(text) else []:
                for word in re.finditer(pattern, re.sub(r"`[^`]*`", "CODE", text), re.IGNORECASE):
                    complain(name, number, f'"{word[0]}": better {instead}', text)
    for exception in set(EXCEPTIONS) - used:
        bad.append(f"scripts/prose.py: the exception {exception[:2]} is not needed any more")
    print("\n".join(bad) or "prose: all pages are fine")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
