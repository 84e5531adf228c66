#!/usr/bin/env python3
"""Stages the pages of docs/SUMMARY.md for mdbook, and checks what it makes of them.

    scripts/book.py stage    writes build/book: pages in the folders that they have here, with README.md as index.md
    scripts/book.py check    looks whether all links and anchors of build/docs lead somewhere

Links are those of GitHub. In the book a link to the header leads to the reference, one to another file takes the file along, and one to
a folder becomes text.
"""

import html.parser
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
STAGE, BOOK = ROOT / "build/book", ROOT / "build/docs"
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)")


def summary():
    """The lines of the summary, with each link as a path from the root."""
    folder = ROOT / "docs"
    for line in (folder / "SUMMARY.md").read_text(encoding="utf-8").splitlines():
        link = LINK.search(line)
        page = os.path.relpath((folder / link[3]).resolve(), ROOT) if link else None
        yield line, link, page


def in_book(page):
    return re.sub(r"README\.md$", "index.md", page)


def relink(text, page, pages, files):
    """The text of a page with the book's links; complains of links to pages that the book lacks."""
    bad = []

    def replace(link):
        mark, label, target = link.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return link[0]
        to = os.path.relpath((ROOT / page).parent / path, ROOT)
        up = os.path.relpath(".", os.path.dirname(page) or ".")
        if to == "include/ember.h":
            return f"[{label}]({os.path.join(up, 'api/index.html')})"
        if (ROOT / to).is_dir():
            return label
        if to.endswith(".md"):
            if to not in pages:
                bad.append(f"{page}: the book has no page {to}")
            to = in_book(to)
        else:
            files.add(to)
        anchor = f"#{anchor}" if anchor else ""
        return f"{mark}[{label}]({os.path.relpath(to, os.path.dirname(page) or '.')}{anchor})"

    fenced, lines = False, []
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        lines.append(line if fenced or is_fence else LINK.sub(replace, line))
        fenced ^= is_fence
    return "\n".join(lines), bad


def stage():
    entries = list(summary())
    pages = [page for _, _, page in entries if page]
    missing = [f"docs/SUMMARY.md: there is no {page}" for page in pages if not (ROOT / page).exists()]
    twice = [f"docs/SUMMARY.md: {page} stands there twice" for page in set(pages) if pages.count(page) > 1]
    bad, files = missing + twice, set()
    if missing:
        return bad
    shutil.rmtree(STAGE, ignore_errors=True)
    for page in pages:
        text, worse = relink((ROOT / page).read_text(encoding="utf-8"), page, pages, files)
        bad += worse
        place = STAGE / in_book(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for file in files:
        (STAGE / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, STAGE / file)
    lines = [line if page is None else line.replace(link[3], in_book(page)) for line, link, page in entries]
    (STAGE / "SUMMARY.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    listed = {os.path.relpath(path, ROOT) for path in (ROOT / "docs").rglob("*.md")}
    # The first page of the reference, and the list itself.
    for page in sorted(listed - set(pages) - {"docs/reference.md", "docs/SUMMARY.md"}):
        bad.append(f"docs/SUMMARY.md: {page} is not there")
    return bad


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.anchors.add(value)
            if (tag, key) in (("a", "href"), ("img", "src"), ("script", "src"), ("link", "href")) and value:
                self.links.append(value)


def check():
    paths = [path for path in BOOK.rglob("*.html") if path.name not in ("print.html", "404.html", "toc.html")]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths if "api" not in path.relative_to(BOOK).parts}
    bad = [] if pages else [f"there is no book in {BOOK}"]
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if (link.endswith((".js", ".css")) or "fonts" in link) and parts.netloc:
                    bad.append(f"{path}: {link} is not offline")
                continue
            to = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not to.exists():
                bad.append(f"{path.relative_to(BOOK)}: the link to {link} leads nowhere")
            elif parts.fragment and to in pages and urllib.parse.unquote(parts.fragment) not in pages[to].anchors:
                bad.append(f"{path.relative_to(BOOK)}: {link} names no place of its page")
    if not list(BOOK.glob("searchindex*.js")):
        bad.append(f"{BOOK} has no index to search")
    return bad


def main():
    found = {"stage": stage, "check": check}[sys.argv[1]]()
    print("\n".join(found) or f"book: {sys.argv[1]} found nothing wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
