"""docs/style.md, as far as a machine can see it: the words that went out, and the length of the notebooks' sentences."""

import re
from pathlib import Path

import nbformat
import pytest

from . import ROOT

STYLE = ROOT / "docs" / "style.md"
NOTEBOOKS = [*sorted(ROOT.glob("solutions/*/*.ipynb")), ROOT / "notebooks" / "index.ipynb"]
PROSE = [path for pattern in ("*.md", "docs/*.md", "notebooks/*.md", "docs/*.py", "src/gapless/**/*.md", "src/gapless/**/*.toml",
                              "src/gapless/**/*.py")
         for path in sorted(ROOT.glob(pattern)) if path not in (STYLE, ROOT / "CHANGELOG.md")]
MOST_WORDS = 25


def words_that_went_out() -> re.Pattern:
    """The left column of the table in docs/style.md: literal words and phrases."""
    rows = re.findall(r"^\| ([^|]*) \|", STYLE.read_text(encoding="utf-8").partition("## Words that went out")[2], re.M)[2:]
    phrases = [phrase for row in rows for phrase in row.split(", ")]
    return re.compile(rf"\b({'|'.join(re.escape(phrase) for phrase in phrases)})\b", re.I)


def joined(text: str) -> str:
    """``text`` with a phrase that is broken over two lines, of a comment or of a string, in one."""
    return re.sub(r"[\"']?[ \t]*\n[ \t]*(?:[#>] ?|[rf]?[\"'])?", " ", text)


def cells_of(path: Path, kind: str | None = None) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if kind in (None, cell.cell_type)]


def sentences(markdown: str) -> list[str]:
    """The sentences of a cell, without tables, code and block quotes. Code, a link's text and what stands in double quotes
    are one word each; a list's item, a heading and a paragraph end a sentence."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$", "", markdown, flags=re.S)
    text = re.sub(r"^\s*[|>].*$", "", text, flags=re.M)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|</?\w[^>]*>", "\n\n", text)
    text = re.sub(r"`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\)|\"[^\"]*\"|“[^”]*”", "one", text)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:#+|[-*]|\d+\.) )", text)
    return [sentence for paragraph in paragraphs for sentence in re.split(r"(?<=[.!?])[)*_]*\s+", paragraph)]


def count(sentence: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PROSE], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_word_that_went_out(path):
    texts = cells_of(path) if path.suffix == ".ipynb" else [path.read_text(encoding="utf-8")]
    found = [text[max(hit.start() - 40, 0):hit.end() + 40] for text in map(joined, texts) for hit in words_that_went_out().finditer(text)]
    assert not found, "docs/style.md says what to write instead:\n" + "\n".join(found)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_sentence_has_at_most_25_words(path):
    long = [f"{count(each)}: {each}" for source in cells_of(path, "markdown") for each in sentences(source) if count(each) > MOST_WORDS]
    assert not long, "make two of each, or three:\n" + "\n".join(long)


def test_the_words_are_found():
    assert words_that_went_out().findall(joined('"It is reck" "oned"\n# Many\n# a formula is dear, but mends goes_by')) == ["Many a", "dear", "mends"]


def test_sentences_skip_tables_code_and_quotes():
    markdown = ("# A title\n\nOne two `a b c`, [three four](https://a.b). Five\nsix!\n\n| a | table |\n\n> a quote\n\n```python\nx = 1. y\n```\n"
                "- seven: eight\n- *nine.* Ten")
    assert [count(each) for each in sentences(markdown) if count(each)] == [2, 4, 2, 2, 1, 1]
