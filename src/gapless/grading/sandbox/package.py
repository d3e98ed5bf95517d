"""What a learner's process is given of this package: the modules that it needs, and no others.

Neither answers nor other lessons, neither views nor the judge are there to be found: an import of them fails, and so does a
search of the files (where a sandbox hides the installed package).
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

DATA = (".vgpu.hardware.cards.fitted",)  # packages that are read with the JSON files beside them


def write_package(folder: Path, modules: Iterable[str]) -> list[Path]:
    """Write ``modules`` (dotted names) and what they import of their own packages into ``folder``; the top-level packages
    there. A package's own ``__init__`` is left empty unless it is among what is needed by name: the public face would import
    everything."""
    found = closure(frozenset(modules))
    for name in found:
        spec = _spec(name)
        target = folder.joinpath(*name.split("."))
        target = target / "__init__.py" if spec.submodule_search_locations is not None else target.with_suffix(".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(spec.origin).read_bytes())
        if name.endswith(DATA):
            for file in Path(spec.origin).parent.glob("*.json"):
                (target.parent / file.name).write_bytes(file.read_bytes())
    tops = sorted({name.partition(".")[0] for name in found})
    for top in tops:
        for path in [folder / top, *(folder / top).rglob("*")]:
            if path.is_dir():
                (path / "__init__.py").touch()
    return [folder / top for top in tops]


@cache
def closure(modules: frozenset[str]) -> frozenset[str]:
    """The modules and all that they import of the packages they are in, at the top or in a function."""
    own = {name.partition(".")[0] for name in modules}
    found, waiting = set(), list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting += [each for each in _imports(name) if each.partition(".")[0] in own and each not in found]
    return frozenset(found)


@cache
def _imports(name: str) -> frozenset[str]:
    """The modules that a module names in its imports, whatever package they are of; packages that only lead there are left
    out."""
    spec = _spec(name)
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(Path(spec.origin).read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[:len(parts) - node.level + 1], *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if _is_module(inner) else base)
    return frozenset(found)


@cache
def _is_module(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in ("torch", "numpy"):
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@cache
def _spec(name: str):
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module {name}")
    return spec
