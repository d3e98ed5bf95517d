"""Exercise cells: from a cell's source to the learner's function.

A cell is recognised by its first line (:mod:`gapless.marker`). It is run by itself, in a namespace that
holds only ``torch``, ``nn``, ``F`` and the lesson's names, in the notebook's checks and in grading alike. It is Python:
Jupyter's ``%magic`` and ``!command`` are refused, in both.
"""

from __future__ import annotations

import ast
import linecache
import re
import traceback

from ...marker import parts

# The library computes what exercises ask for. In grading none of that is there to be imported.
_LIBRARY = __name__.partition(".")[0]
_LIBRARY_NAME = re.compile(rf"{_LIBRARY}(\.\w+)*")
_JUPYTER_COMMAND = re.compile(r"^(\w[\w, .\[\]]*=)?\s*[%!]|^\?|\?$")
_FILE_NAME = re.compile(r"<cell (\w+\.py)>")
_ANSWERS = ("views", "lessons")

# In the texts of PyTorch's errors.
_FOLLOWS = "previous error"
_CAUGHT = re.compile(r"Caught \w+ in ")  # an error of another process or thread: its own text ends with what it said
_MET_BY_DYNAMO = re.compile(r"^  Explanation: .*: got (\w+\(.*\))$", re.M)
_USER_CODE = re.compile(r'File "(<cell [\w.]+>)", line (\d+), in .*\n\s*(\S.*)')


class CellError(Exception):
    """An exercise cell that does not compile, raises, or does not define its function.

    The message is for the learner and names the line.
    """


class CellRaised(Exception):
    """What a cell's function raised in another process; the message is what :func:`describe_error` said there."""


def load_function(source: str, name: str, names: dict):
    """Run the cell's ``source`` in a copy of ``names``; returns the function called ``name``.

    The source is registered with ``linecache`` under ``<cell NAME>``, so that tracebacks and sync
    locations can show its lines; a program's files each under ``<cell NAME.py>``, run one after another in one namespace.
    Raises CellError.
    """
    namespace = {"__name__": "__exercise__", **names}
    texts = {f"<cell {file}>": text for file, text in parts(source).items()} or {f"<cell {name}>": source}
    try:
        for filename, text in texts.items():
            linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
            code = compile(text, filename, "exec", dont_inherit=True)
            _refuse_library(text)
            exec(code, namespace)
    except CellError:
        raise
    except SyntaxError as error:
        line = text.splitlines()[error.lineno - 1].strip() if error.lineno else ""
        file = "" if len(texts) == 1 else f" of {filename[len('<cell '):-1]}"
        if _JUPYTER_COMMAND.search(line):
            raise CellError(f"`{line}` (line {error.lineno}{file}) is for Jupyter, not Python. Grading runs the cell "
                            "without Jupyter: take that line out, or put it into another cell") from None
        raise CellError(f"the cell does not compile: {error.msg} (line {error.lineno}{file})") from None
    except NameError as error:
        if error.name == "lesson":
            advice = "Checks and hints have their own cells: take that line out of this one, and run the cell below"
        else:
            advice = "The check runs each exercise cell alone: put the imports and helpers it needs inside the cell"
        raise CellError(f"{describe_error(error, name)}. {advice}.") from None
    except Exception as error:
        raise CellError(f"the cell raised {describe_error(error, name)}") from None
    function = namespace.get(name)
    if function is None:
        raise CellError(f"the cell defines no function called {name!r}: keep the name it had")
    if not callable(function):
        raise CellError(f"{name!r} is a {type(function).__name__}, not a function")
    return function


def _refuse_library(source: str) -> None:
    """Raise CellError where the cell imports this library, by a statement or by its name as text: a friendly word to those
    who mean no harm, no fence. ``gapless`` itself may be among a lesson's names, its answers may not be taken from it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _LIBRARY_NAME.fullmatch(node.value):
            found = [node.value]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _ANSWERS:
            found = [f"{node.value.id}.{node.attr}"]
        else:
            continue
        for module in found:
            if module.partition(".")[0] == _LIBRARY:
                raise CellError(
                    f"the cell takes from {module} (line {node.lineno}): write it yourself. The function gets all it "
                    "needs as arguments; torch and the lesson's names are already there"
                )


def describe_error(error: BaseException, name: str) -> str:
    """``TypeError: … (line 4: the_line())`` with the innermost line that lies in the cell. Of what Dynamo met while it took
    the cell's code into a graph: that error and that line. Of an invalid capture: the error in it too. Of one caught
    in a worker: what that said."""
    if isinstance(error, CellRaised):
        return str(error)
    text, earlier = str(error).strip(), error.__context__
    lines = text.splitlines() or ["no message"]
    if _FOLLOWS in lines[0] and earlier is not None and _line(earlier, name):
        return f"{type(error).__name__}: {lines[0]}. First came {describe_error(earlier, name)}"
    met = _MET_BY_DYNAMO.search(text)
    first = f"{lines[0]}: {met[1]}" if met else " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    if _CAUGHT.match(first) and len(lines) > 1:
        first = f"{first.rstrip('.')}: {lines[-1]}"
    return f"{type(error).__name__}: {first}{_line(error, name)}"


def _line(error: BaseException, name: str) -> str:
    """" (line 4: the_line())" of the cell; "" where none is known."""
    places = [(frame.filename, frame.lineno, frame.line) for frame in traceback.extract_tb(error.__traceback__)]
    places += _USER_CODE.findall(str(error))
    where = ""
    for filename, number, line in places:
        if filename == f"<cell {name}>":
            where = f" (line {number}: {line})"
        elif file := _FILE_NAME.fullmatch(filename):
            where = f" ({file[1]}, line {number}: {line})"
    return where
