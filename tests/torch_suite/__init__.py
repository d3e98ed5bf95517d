"""PyTorch's own test files on the virtual GPU: one test in a child process, and which of them an entry of ``expected.toml``
covers."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import importlib.util
import io
import os
import re
import sys
import tomllib
import unittest
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

CPU, DEVICE = "cpu", "privateuse1"  # as PyTorch's tests name them


class Skipped(Exception):
    """The test itself says that it does not fit."""


def _unchanged(test):
    return test


# What files of older versions import from PyTorch's testing modules, and these no longer have, made of the module.
GONE: dict[str, dict[str, Callable[[ModuleType], object]]] = {
    "common_utils": {"skipIfMps": lambda module: _unchanged},
    "common_cuda": {"tf32_is_not_fp32": lambda module: lambda: False},
    "common_mkldnn": {"bf32_on_and_off": lambda module: lambda *arguments: _unchanged},
    "common_methods_invocations": {"binary_ufuncs_and_refs": lambda module: module.binary_ufuncs},
    "common_nn": {"new_module_tests": lambda module: []},
}


def _bring_back() -> None:
    for name, gone in GONE.items():
        module = importlib.import_module(f"torch.testing._internal.{name}")
        for each, made in gone.items():
            if not hasattr(module, each):
                setattr(module, each, made(module))


@functools.cache
def _module(path: Path, device: str) -> ModuleType:
    """The file, whose tests for any device are made for this one. For a child: what it changes stays changed."""
    from gapless import vgpu

    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = device
    os.environ["PYTORCH_DISABLE_FP32_PRECISION_LEAK_CHECK"] = "1"  # older files set precisions for good
    vgpu.enable("a100")
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    _bring_back()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    text = path.read_text(encoding="utf-8").replace("super(self.__class__, self)", "super()")  # endless in a class made of it
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        exec(compile(text, path, "exec"), vars(module))
    return module


def names(folder: Path, file: str) -> list[str]:
    """``CLASS.METHOD`` of each test of the file that is made for a device, as it is called on the CPU."""
    classes = [each for each in vars(_module(folder / file, CPU)).values()
               if isinstance(each, type) and issubclass(each, unittest.TestCase) and each.__name__.endswith("CPU")]
    return [f"{each.__name__}.{name}" for each in classes for name in unittest.defaultTestLoader.getTestCaseNames(each)]


def on_the_device(module: ModuleType, name: str) -> Callable[[], unittest.TestCase]:
    """What makes the test there that :func:`names` calls ``name``. Raises Skipped where it is made for the CPU alone."""
    of, method = name.split(".")
    before, _, after = method.rpartition("_cpu")
    for suffix in ("PRIVATEUSE1", "VGPU"):  # PyTorch uses both
        made = getattr(module, of.removesuffix("CPU") + suffix, None)
        if hasattr(made, method := f"{before}_vgpu{after}"):
            return functools.partial(made, method)
    raise Skipped("it is made for the CPU alone")


def run(folder: Path, device: str, task: tuple[str, str]) -> None:
    """Run the test ``(file, CLASS.METHOD)``, by the CPU's names, on ``device``. Raises Skipped, or AssertionError with its last
    words."""
    file, name = task
    module = _module(folder / file, device)
    of, method = name.split(".")
    test = getattr(module, of)(method) if device == CPU else on_the_device(module, name)()
    result = unittest.TestResult()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        test.run(result)
    for _, text in (*result.errors, *result.failures):
        raise AssertionError(_last_words(text))
    for _, reason in result.skipped:
        raise Skipped(reason)


def _last_words(traceback: str) -> str:
    """The error's own line, without what PyTorch's tests add."""
    lines = [line for line in traceback.strip().splitlines() if re.match(r"[\w.]+(Error|Exception|Warning)?\b: ", line)]
    return (lines or [traceback.strip().splitlines()[-1]])[-1][:300]


def sampled(tests: list[str], every: int) -> list[str]:
    """One in ``every`` of them, each function before a second variant of one."""
    seen: dict[str, int] = {}
    ranked = []
    for place, name in enumerate(tests):
        function = name.rpartition("_cpu")[0]
        seen[function] = seen.get(function, -1) + 1
        ranked.append((seen[function], place, name))
    return [name for *_, name in sorted(ranked)[:-(-len(tests) // every)]]


@dataclass(frozen=True)
class Expected:
    """Failures that are CUDA's behaviour, a refusal that the docs name, or the tests' own. ``tests``: a pattern of
    ``FILE::CLASS.METHOD``, with the CPU's names; ``says``: a pattern in what was said; ``reason``: why it is right."""

    tests: str
    reason: str
    says: str = "*"

    def covers(self, test: str, said: str) -> bool:
        """Whether this failure is one of them."""
        return fnmatch.fnmatchcase(test, self.tests) and fnmatch.fnmatchcase(said, f"*{self.says}*")


def expected() -> list[Expected]:
    """The entries of ``expected.toml``."""
    rows = tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))
    return [Expected(**row) for row in rows["expected"]]
