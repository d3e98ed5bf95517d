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

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "headlines.md"
BEGIN, END = "<!-- headlines: written by make records -->", "<!-- /headlines -->"
# Lesson → the card its headline is simulated on: the article's own where it names one.
CARDS = {"00_two_clocks": "a10g", "01_profiler_tour": "h100", "02_masked_loss": "a10g", "03_metric_collection": "a40",
         "04_data_loading": "a10g", "05_convolutions": "v100", "06_launch_overhead": "a100", "07_kernel_fusion": "a100",
         "08_memory": "t4", "09_data_parallel": "a10g", "10_capstone": "a10g"}


def simulate() -> None:
    """Write ``records/simulated_CARD.json`` for each card."""
    for card in sorted(set(CARDS.values())):
        lessons = [word for lesson, its_card in CARDS.items() if its_card == card for word in ("--lesson", lesson)]
        subprocess.run([sys.executable, "-m", "gapless.commands.cli", "record", "--device", f"vgpu:{card}", *lessons,
                        "--out", f"records/simulated_{card}.json"], cwd=ROOT, check=True)


def tables() -> str:
    """The tables of all records, by lesson, the measured ones before the simulated."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "records").glob("*.json"))]
    records = sorted((record for record in records if "lessons" in record), key=lambda record: record["simulated"])
    parts = []
    for lesson in LESSONS.values():
        parts.append(f"## {lesson.id[:2]} {lesson.title}")
        for record in records:
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
