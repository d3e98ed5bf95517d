"""All programs, and the table of how they went."""

from __future__ import annotations

from . import (  # noqa: F401  each adds its programs
    PROGRAMS,
    examples,
    hugging_face,
    metrics,
    trainers,
    vision,
)
from .one import TOLERANCE

OUTCOMES = ("same", "differs", "error", "crash", "timeout", "not on the CPU", "not installed")


def table(record: dict) -> str:
    """The record's table in Markdown, and the programs that are not the same, each with its reason."""
    results = record["programs"]
    groups = list(dict.fromkeys(name.rpartition("/")[0] for name in results))
    shown = [each for each in OUTCOMES if any(result["outcome"] == each for result in results.values())]
    lines = ["| | programs | " + " | ".join(shown) + " |", "|---|" + "---|" * (1 + len(shown))]
    for group in [*groups, "all"]:
        here = [result["outcome"] for name, result in results.items() if group in (name.rpartition("/")[0], "all")]
        lines.append(f"| {group} | {len(here)} | " + " | ".join(str(here.count(each)) for each in shown) + " |")
    others = [f"- {name}: {result['outcome']}{': ' if result.get('why') else ''}{result.get('why', '')}"
              for name, result in sorted(results.items()) if result["outcome"] not in ("same", "not installed")]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    limits = ", ".join(f"{dtype} {limit:g}" for dtype, limit in TOLERANCE.items())
    return "\n\n".join([
        "\n".join(lines),
        *(["What is not the same:\n\n" + "\n".join(others)] if others else []),
        f"`{record['command']}`, {record['date']}, {versions}. Same: what is no floating point is equal, and the difference's norm is "
        f"within this part of the norm of each loss, gradient and parameter: {limits} (in mixed precision bfloat16's)."])
