"""``PYTHON benchmarks/colab_runtime.py [LESSON …]``: all lessons' notebooks from the top, in the interpreter that runs this.

For an environment like Colab's, whose Python is newer and whose IPython is older than the course's own. Its versions on
2026-08-19, from pip-freeze.txt of github.com/googlecolab/backend-info ("Upgrade to Python 3.13", live since 2026-08-25):
Python 3.13.15, torch 2.11.0, torchvision 0.26.0, numpy 2.1.3, matplotlib 3.10.0, and of Jupyter

    ipython==7.34.0 ipykernel==6.17.1 ipywidgets==7.7.1 traitlets==5.7.1 jupyter_client==7.4.9 nbclient==0.10.4

Each notebook is run as handed out and solved, in a kernel of its own, by nbclient, in a new folder. It says how long that
took, what was shown as an error or written to stderr, and the points; the exit status is 1 where a cell failed, where a
solved notebook has not all points or a handed-out one has any. Needs torch, numpy, matplotlib, ipykernel, nbclient and
torchmetrics, and gapless on its path.
"""

from __future__ import annotations

import platform
import re
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "numpy", "matplotlib", "ipython", "ipykernel", "ipywidgets", "traitlets")


def run(path: Path) -> tuple[str, list[str]]:
    """(the last line of the notebook's score, what was odd), of the notebook at ``path``."""
    notebook = nbformat.read(path, as_version=4)
    odd = []
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": folder}})
        try:
            client.execute()
        except CellExecutionError as error:
            odd.append(f"FAILED: {str(error).strip()[-1500:]}")
        odd += [f"left behind: {each.name}" for each in Path(folder).iterdir() if not each.name.startswith(".")]
    score = "no score"
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                odd.append(f"stderr of cell {cell.id}: {output.text.strip()[:300]}")
            if cell.id == "score" and "text" in output:
                score = output.text.rstrip().splitlines()[-1]
    return score, odd


def main(lessons: list[str]) -> int:
    """Run them and say how it went; the exit status."""
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in PACKAGES), flush=True)
    failed = False
    for folder in ("notebooks", "solutions"):
        for path in sorted((ROOT / folder).glob("*/*.ipynb")):
            if lessons and path.stem not in lessons:
                continue
            start = time.perf_counter()
            score, odd = run(path)
            points = re.search(r"([\d.]+) of ([\d.]+)$", score)
            wanted = points and (points[2] if folder == "solutions" else "0")
            right = points is not None and points[1] == wanted and not any("FAILED" in each for each in odd)
            failed |= not right
            print(f"{'ok ' if right else 'BAD'} {folder}/{path.stem}: {time.perf_counter() - start:.0f} s, "
                  f"{' '.join(score.split())}", flush=True)
            for each in odd:
                print("      " + each.replace("\n", "\n      "), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
