"""docs/style.md, as far as a machine can see it: the words that went out, and the length of the notebooks' sentences."""

import io
import re
import tokenize
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
    rows = re.findall(r"^\| ([^|]*) \|", STYLE.read_text(encoding="utf-8").partition("## Words that went out")[2], re.M)[1:]
    phrases = [phrase for row in rows for phrase in row.split(", ")]
    return re.compile(rf"\b({'|'.join(re.escape(phrase) for phrase in phrases)})\b", re.I)


def prose(path: Path) -> list[str]:
    """What a person reads of a file: a notebook's cells, a module's strings and comments, else all of it. A phrase may go
    over the end of a line, of a string or of a comment."""
    if path.suffix == ".ipynb":
        return cells_of(path)
    text = path.read_text(encoding="utf-8")
    return [joined(strings_and_comments(text) if path.suffix == ".py" else text)]


def joined(text: str) -> str:
    return re.sub(r"\s+(?:# ?)?", " ", text)


def strings_and_comments(source: str) -> str:
    """Strings that follow each other are one. What an f-string puts in is left out."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            prefix, _, text = re.fullmatch(r"([a-zA-Z]*)([\"']{3}|[\"'])(.*)\2", token.string, flags=re.S).groups()
            found.append(re.sub(r"\{[^{}]*\}", "…", text) if "f" in prefix.lower() else text)
        elif kind == "FSTRING_MIDDLE":  # since Python 3.12
            found.append(token.string)
        elif kind == "COMMENT":
            found.append(f" {token.string} ")
        elif kind not in ("NL", "FSTRING_START", "FSTRING_END"):
            found.append("\n")
    return "".join(found)


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
    found = [text[max(hit.start() - 40, 0):hit.end() + 40] for text in prose(path) for hit in words_that_went_out().finditer(text)]
    assert not found, "docs/style.md says what to write instead:\n" + "\n".join(found)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_sentence_has_at_most_25_words(path):
    long = [f"{count(each)}: {each}" for source in cells_of(path, "markdown") for each in sentences(source) if count(each) > MOST_WORDS]
    assert not long, "make two of each, or three:\n" + "\n".join(long)


def test_the_words_are_found():
    source = 'mend = ("It is reck"\n        "oned")\n# Many\n# a formula is dear\ngoes_by = f"it mends {mend}"\n'
    assert words_that_went_out().findall(joined(strings_and_comments(source))) == ["reckoned", "Many a", "dear", "mends"]


def test_sentences_skip_tables_code_and_quotes():
    markdown = ("# A title\n\nOne two `a b c`, [three four](https://a.b). Five\nsix!\n\n| a | table |\n\n> a quote\n\n```python\nx = 1. y\n```\n"
                "- seven: eight\n- *nine.* Ten")
    assert [count(each) for each in sentences(markdown) if count(each)] == [2, 4, 2, 2, 1, 1]
