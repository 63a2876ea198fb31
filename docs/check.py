"""Checks the documentation that was built: links, anchors, and sentences that are too long to be read aloud."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
LONGEST = 70  # words of a sentence
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "AGENTS.md")  # not in the site
# what is data or a list of names, not prose
UNREAD = ("docs/studies/results/", "docs/models.md", "docs/notebooks/")


class Page(HTMLParser):
    """The anchors of a page, and what it points to."""

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.anchors, self.links = path, {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.anchors |= {given[name] or "" for name in ("id", "name") if name in given}
        self.links += [given[name] or "" for name in ("href", "src") if name in given and tag != "base"]


def broken_in(site: Path) -> list[str]:
    """Every link and picture of the site that leads nowhere inside it."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{page.path.relative_to(site)}: {link}"
        for page in pages.values()
        for link in page.links
        if not _leads(page.path, link, pages)
    ]


def _leads(origin: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or origin.name == "404.html":
        return True
    target = (origin.parent / unquote(parts.path)).resolve() if parts.path else origin
    target = target / "index.html" if target.is_dir() else target
    if target not in pages:
        return target.exists()
    return unquote(parts.fragment) in pages[target].anchors


def broken_beside(root: Path) -> list[str]:
    """The same of the Markdown files beside the documentation, as far as files go."""
    found = []
    for name in BESIDE:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (root / name).read_text(encoding="utf-8")):
            if not urlsplit(link).scheme and not (root / link).exists():
                found.append(f"{name}: {link}")
    return found


def sentences(markdown: str) -> list[str]:
    """Its prose, sentence by sentence: without code, tables, links' addresses and lists of examples."""
    text = re.sub(r"^(```|~~~).*?^\1", "", markdown, flags=re.M | re.S)
    text = re.sub(r"^\|.*$|^#.*$|^:::.*$|<[^>]+>|^ {4,}.*$", "", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    blocks = re.split(r"\n\s*\n|\n(?=[*\-+] |\d+\. )", text)
    return [
        part for block in blocks for part in re.split(r"(?<=[.!?:])\s+(?=[\"“*(A-Z]|code)", " ".join(block.split()))
    ]


def too_long(root: Path) -> list[str]:
    files = [*(root / "docs").rglob("*.md"), *(root / name for name in BESIDE)]
    return [
        f"{path.relative_to(root)}: {len(sentence.split())} words: {sentence[:100]}…"
        for path in sorted(files)
        if not str(path.relative_to(root)).startswith(UNREAD)
        for sentence in sentences(path.read_text(encoding="utf-8"))
        if len(sentence.split()) > LONGEST
    ]


def main() -> None:
    wrong = {
        "Links that lead nowhere": broken_in(SITE) + broken_beside(ROOT),
        f"Sentences of more than {LONGEST} words": too_long(ROOT),
    }
    for what, found in wrong.items():
        print(f"{what}: {len(found)}", *found, sep="\n  ")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
