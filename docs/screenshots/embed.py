"""``python docs/screenshots/embed.py``: put the pictures beside this file into lesson 01's source notebook, as attachments.

A cell names its pictures as ``attachment:NAME.png``. Afterwards ``make notebooks``.
"""

import base64
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOTEBOOK = HERE.parents[1] / "solutions" / "01_profiler_tour" / "01_profiler_tour.ipynb"


def main() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        names = re.findall(r"\(attachment:([\w.]+)\)", "".join(cell["source"])) if cell["cell_type"] == "markdown" else []
        missing = [name for name in names if not (HERE / name).is_file()]
        if missing:
            sys.exit(f"cell {cell['id']}: {', '.join(missing)} is not in {HERE.name}/: make it with python docs/screenshots")
        if names:
            pictures = {name: base64.b64encode((HERE / name).read_bytes()).decode() for name in names}
            cell["attachments"] = {name: {"image/png": picture} for name, picture in pictures.items()}
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
