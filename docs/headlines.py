"""``make records``: simulate every lesson's headline again, keep it in ``records/``, and write the tables of
``docs/headlines.md`` from all records there, those measured on a real GPU among them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gapless.course.headline import Figures, table
from gapless.files import between, write_bytes
from gapless.lessons import LESSONS
from gapless.vgpu.hardware.cards.specs import find_model

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "headlines.md"
BEGIN, END = "<!-- headlines: written by make records -->", "<!-- /headlines -->"
# Lesson → the card its headline is simulated on: the article's own where it names one.
CARDS = {"00_two_clocks": "a10g", "01_profiler_tour": "h100", "02_masked_loss": "a10g", "03_metric_collection": "a40",
         "04_data_loading": "a10g", "05_convolutions": "v100", "06_launch_overhead": "a100", "07_kernel_fusion": "a100",
         "08_memory": "t4", "09_data_parallel": "a10g", "10_capstone": "a10g"}


def simulate() -> None:
    """Write ``records/simulated_CARD.json`` for each card: of its lessons, and of those that were measured on such a GPU."""
    chosen = {(card, lesson) for lesson, card in CARDS.items()}
    chosen |= {(find_model(record["gpu"]), lesson) for record in records() if not record["simulated"]
               for lesson in LESSONS if lesson in record["lessons"]}
    for card in sorted({card for card, _ in chosen if card is not None}):
        lessons = [word for lesson in LESSONS if (card, lesson) in chosen for word in ("--lesson", lesson)]
        subprocess.run([sys.executable, "-m", "gapless.commands.cli", "record", "--device", f"vgpu:{card}", *lessons,
                        "--out", f"records/simulated_{card}.json"], cwd=ROOT, check=True)


def records() -> list[dict]:
    """All records of headlines, the measured before the simulated."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "records").glob("*.json"))]
    return sorted((record for record in found if "lessons" in record), key=lambda record: record["simulated"])


def tables() -> str:
    """The tables of all records, by lesson."""
    parts = []
    for lesson in LESSONS.values():
        parts.append(f"## {lesson.id[:2]} {lesson.title}")
        for record in records():
            found = [str(table(each, [Figures(**row) for row in record["lessons"][name]]))
                     for name, each in lesson.named.items() if name in record["lessons"]]
            if found:
                parts += [*found, f"`{record['command']}`, torch {record['versions']['torch'].partition('+')[0]}."]
    return "\n\n".join(parts)


def page(text: str) -> str:
    """``text`` of headlines.md with the tables in their place."""
    return between(text, BEGIN, END, tables())


if __name__ == "__main__":
    simulate()
    write_bytes(PAGE, page(PAGE.read_text(encoding="utf-8")).encode("utf-8"))
