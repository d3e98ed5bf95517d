"""Changes to modules that a program may import later: PyTorch's that take long to import, and libraries of others."""

from __future__ import annotations

import sys

_waiting: dict[str, list] = {}  # module's name → functions of the module


class _Finder:
    """Finds what the finders after it find, and has the module's loader call the functions that wait for it."""

    def find_spec(self, name, path=None, target=None):
        functions = _waiting.pop(name, None)
        if functions is None:
            return None
        spec = next((found for finder in sys.meta_path if finder is not self
                     if (found := finder.find_spec(name, path, target)) is not None), None)
        if spec is None or spec.loader is None:
            _waiting[name] = functions
            return spec
        load = spec.loader.exec_module

        def exec_module(module) -> None:
            load(module)
            for function in functions:
                function(module)

        spec.loader.exec_module = exec_module
        return spec


def after_import(name: str, function) -> None:
    """Call ``function(module)`` after the first import of the module ``name``, or now where that is past. A module that is
    in the middle of its import counts as imported."""
    if name in sys.modules:
        function(sys.modules[name])
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(function)


def replace(module, name: str, new) -> None:
    """Put ``new`` in the place of ``module.name``, and of the same object under that name in modules that have imported it:
    in those of the same library, and in any if the library itself has made the object. Raises AttributeError where the
    module has no such name."""
    old = getattr(module, name)
    library = module.__name__.partition(".")[0]
    its_own = (getattr(old, "__module__", None) or "").partition(".")[0] == library
    setattr(module, name, new)
    for other_name, other in list(sys.modules.items()):
        if (its_own or other_name.partition(".")[0] == library) and getattr(other, "__dict__", {}).get(name) is old:
            setattr(other, name, new)
