"""Changes to modules of PyTorch that a program may import later, and that would take long to import for everybody."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType


def when_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call ``change`` with the module ``name``: now, if it has been imported, else as soon as it is."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, change))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, change: Callable[[ModuleType], None]):
        self.name, self.change = name, change

    def find_spec(self, name, path, target=None):
        """The module's own spec, whose loader has one thing more to do."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self.change(module)

        spec.loader.exec_module = exec_module
        return spec
