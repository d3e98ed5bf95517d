"""``python docs/screenshots/embed.py``: put the pictures of this folder and of ``docs/figures`` into the source notebooks
that name them, as attachments.

A cell names its pictures as ``attachment:NAME.png``. Afterwards ``make notebooks``.
"""

import base64
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = (HERE, HERE.parent / "figures")


def main() -> None:
    for path in sorted((HERE.parents[1] / "solutions").glob("*/*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
            names = re.findall(r"\(attachment:([\w.]+)\)", text)
            if names:
                cell["attachments"] = {name: {"image/png": picture(name, cell["id"])} for name in names}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def picture(name: str, cell_id: str) -> str:
    """The file in base64."""
    found = next((folder / name for folder in FOLDERS if (folder / name).is_file()), None)
    if found is None:
        sys.exit(f"cell {cell_id}: {name} is in none of {', '.join(folder.name for folder in FOLDERS)}")
    return base64.b64encode(found.read_bytes()).decode()


if __name__ == "__main__":
    main()
