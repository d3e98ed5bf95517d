"""``make records``, second half: the virtual GPU's predictions beside all times that others measured. Writes
``records/validation.json``, the table in ``docs/virtual_gpu.md`` and ``docs/validation.png``. Takes some ten minutes.

Of the whole networks every eighth is predicted; the table says how many."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from gapless.evidence.pictures import themed
from gapless.fidelity import against_measured, measured
from gapless.files import between, write_bytes, write_json
from gapless.measure.versions import versions

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "virtual_gpu.md", ROOT / "docs" / "validation.png"
RECORD = ROOT / "records" / "validation.json"
BEGIN, END = "<!-- validation: written by make records -->", "<!-- /validation -->"
EVERY = {"timm.csv": 8}


def validate() -> None:
    """Predict, and write the record and the picture."""
    rows = [row for path in measured.shipped() for row in measured.read(path)[::EVERY.get(path.name, 1)]]
    found = list(against_measured.points(rows))
    lines = against_measured.summary(found)
    write_json(RECORD, {"what": "times that others measured, and their predictions", "simulated": True, "errors": lines,
                        "versions": versions(), "date": datetime.date.today().isoformat(),
                        "command": "python docs/validation.py"})
    write_bytes(PICTURE, themed.png(against_measured.picture(found), against_measured.alt(lines)))


def tables() -> str:
    """The record's tables, of operators and steps, collectives, networks, and the picture."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    groups: dict[str, list[dict]] = {"": [], "AllReduce": [], "networks": []}
    for line in record["errors"]:
        if line["mean_abs_error"] is not None:
            kind = line["kind"].partition(",")[0]
            groups[kind if kind in groups else ""].append(line)
    return "\n\n".join([
        *map(against_measured.table, groups.values()),
        f"`{record['command']}`, {record['date']}, torch {record['versions']['torch'].partition('+')[0]}. A cell: mean "
        "|predicted ÷ measured − 1|, in brackets the mean with its sign, how many times were predicted, and the share of "
        "them within which mean uncertainty.",
        f"![{against_measured.alt(record['errors'])}]({PICTURE.name})"])


def page(text: str) -> str:
    """``text`` of virtual_gpu.md with the tables in their place."""
    return between(text, BEGIN, END, tables())


if __name__ == "__main__":
    validate()
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
