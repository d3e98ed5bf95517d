"""A papermill engine that runs a notebook in this very process, where everything is imported already.

For the instructor's own test notebooks, one after another: a kernel would start Python and import PyTorch for each.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
import types
from base64 import b64encode

import nbformat
from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from papermill.engines import Engine, papermill_engines
from traitlets.config import Config

NAME = "gapless-here"


class _Shown(DisplayHook):
    """The value of a cell's last expression is one of its outputs, and kept nowhere."""

    def __call__(self, result=None):
        if result is not None:
            data, metadata = self.compute_format_data(result)
            self.shell.display_pub.publish(data, metadata)


class _Shell(InteractiveShell):
    displayhook_class = _Shown


class HereEngine(Engine):
    """Runs the code cells in IPython's shell of this process; their outputs are as a kernel's."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **options):
        shell = _shell()  # as new, or as it was reset below
        try:
            for index, cell in enumerate(nb_man.nb.cells):
                nb_man.cell_start(cell, index)
                if cell.cell_type == "code":
                    cell.outputs, failed = _run(shell, cell.source)
                    if failed:
                        nb_man.cell_exception(cell, index)
                        return
                nb_man.cell_complete(cell, index)
        finally:
            for value in list(shell.user_ns.values()):
                if hasattr(type(value), "close"):  # a grader, a file: what ends with a kernel
                    value.close()
            shell.reset(new_session=False)


def _run(shell: InteractiveShell, source: str) -> tuple[list, bool]:
    """(outputs, whether the cell raised)."""
    with capture_output() as captured:
        done = shell.run_cell(source, store_history=False)
    new = nbformat.v4.new_output
    outputs = [new("stream", name=name, text=text)
               for name, text in (("stdout", captured.stdout), ("stderr", captured.stderr)) if text]
    outputs += [new("display_data", data=_plain(each.data), metadata=each.metadata or {}) for each in captured.outputs]
    error = done.error_before_exec or done.error_in_exec
    if error is not None:
        outputs.append(new("error", ename=type(error).__name__, evalue=str(error),
                           traceback="".join(traceback.format_exception(error)).splitlines()))
    return outputs, error is not None


def _plain(data: dict) -> dict:
    """With pictures as text, as in a notebook's file."""
    return {kind: b64encode(value).decode() if isinstance(value, bytes) else value for kind, value in data.items()}


@functools.cache
def _shell() -> InteractiveShell:
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.use("agg")  # no window
    # Not __main__: that is the program which this process was started for.
    return _Shell.instance(user_module=types.ModuleType("test_notebook"), config=Config(HistoryManager={"enabled": False}))


def register() -> str:
    """Make papermill know the engine; its name."""
    papermill_engines.register(NAME, HereEngine)
    return NAME
