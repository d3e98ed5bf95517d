"""``gapless audit``: anybody's training script, unchanged, for a few steps: what makes it wait."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

_SWITCHES = ("tf32", "amp", "benchmark", "fused", "workers", "pinned")  # gapless.audit.switches, which needs PyTorch
_FORMATS = {".html": "html", ".md": "md", ".json": "json"}


def add_parser(commands) -> None:
    """Add ``audit`` to the command line."""
    parser = commands.add_parser(
        "audit", help="what makes a training script wait",
        description="Run a training script unchanged for a few steps, on CUDA or, without a GPU, with `cuda` meaning the "
                    "virtual GPU, and report what bounds a step, what each wait costs, and what to do.")
    _add_options(parser)
    # With two arguments of the parser's, the first would swallow a -- behind it.
    parser.add_argument("script", metavar="SCRIPT", nargs=argparse.PARSER,
                        help="the training script, and its own arguments: everything from the first that is not one of "
                             "these options, or after --")
    parser.set_defaults(run=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="a .html, .md or .json; - prints it (default: NAME.audit.html)")
    parser.add_argument("--format", choices=sorted(set(_FORMATS.values())), help="default: by the name of FILE, else html")
    parser.add_argument("--device", metavar="D", help="cuda, vgpu:a100, … (default: GAPLESS_DEVICE, else the best there is)")
    parser.add_argument("--host", choices=("measured", "counted"), default="measured",
                        help="on the virtual GPU: measured is the program's own time on this machine; counted is an "
                             "estimate from its Python calls, the same on every machine (default: %(default)s)")
    parser.add_argument("--steps", type=_positive,
                        help="steps to record (default: 3, or more, so that a loader's workers make equally many batches)")
    parser.add_argument("--warm-up", type=_positive,
                        help="steps before them (default: 3, and as many as the loaders' workers have batches ready)")
    parser.add_argument("--forward", action="store_true",
                        help="a step is a forward pass, for a script that does not train (found automatically if the "
                             "script ends soon)")
    parser.add_argument("--no-memory", action="store_true", help="leave out the two steps that find memory by category")
    parser.add_argument("--watch", type=float, default=5.0, metavar="SECONDS",
                        help="let it run on for this long, to see what only some steps do (default: %(default)g)")
    parser.add_argument("--try", dest="tries", type=_names, default=(), metavar="NAMES",
                        help=f"run the script again with each of these switched on: {', '.join(_SWITCHES)}, or all")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="give up after so long")
    parser.add_argument("--fail-on-waits", action="store_true", help="exit with 1 if a recorded step waits, for CI")
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is a module's name, as for python -m")


def own_options(arguments: argparse.Namespace) -> list[str]:
    """The script's arguments; the options of this command that stand between the script and them become attributes of
    ``arguments``, as those before the script are, except for ``-m``. Leaves by SystemExit where one of them is wrong."""
    options = argparse.ArgumentParser(prog="gapless audit", add_help=False, allow_abbrev=False)
    _add_options(options)
    takes = {name: action.nargs != 0 for action in options._actions for name in action.option_strings
             if name.startswith("--")}
    given = arguments.script[1:]
    place = 0
    while place < len(given) and (name := given[place].partition("=")[0]) in takes:
        place += 1 + (takes[name] and name == given[place])
    options.parse_args(given[:place], namespace=arguments)
    return given[place + (given[place:place + 1] == ["--"]):]


def _names(text: str) -> tuple[str, ...]:
    names = _SWITCHES if text == "all" else tuple(text.split(","))
    if set(names) - set(_SWITCHES):
        raise argparse.ArgumentTypeError(f"{text!r}: known are {', '.join(_SWITCHES)}, or all; with commas between them")
    return names


def _positive(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps: give 1 to 1000")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Audit, write the page; 1 where waits are to fail and there are any. Raises AuditError, UnknownDevice."""
    from ..audit.audit import audit
    from ..audit.launch import AuditError
    from ..audit.markdown import markdown
    from ..files import check_writable, write_bytes
    from ..measure.device import device as choose_device

    given = own_options(arguments)
    script = arguments.script[0]
    if not arguments.is_module and not Path(script).is_file():
        raise AuditError(f"there is no file {script}: name the script that you would give to python")
    choose_device(arguments.device)  # before anything runs
    name = script if arguments.is_module else Path(script).stem
    out = arguments.out or f"{name}.audit.{arguments.format or 'html'}"
    kind = arguments.format or ("html" if out == "-" else _FORMATS.get(Path(out).suffix.lower()))
    if kind is None:
        raise AuditError(f"{out} has no known format: name it .html, .md or .json, or give --format")
    if out != "-":
        try:
            check_writable(out)
        except OSError as error:
            raise AuditError(f"{error}") from None
    with tempfile.TemporaryDirectory(prefix="gapless-audit-") as folder:
        found = audit(script, given, folder, is_module=arguments.is_module, device=arguments.device, steps=arguments.steps,
                      warm_up=arguments.warm_up, memory=not arguments.no_memory, forward=arguments.forward,
                      time_limit_s=arguments.time_limit, tries=arguments.tries, counted=arguments.host == "counted",
                      watch_s=max(0.0, arguments.watch))
        if kind == "json":
            text = json.dumps(found.to_json(), indent=1, ensure_ascii=False) + "\n"
        elif kind == "md":
            text = markdown(found)
        else:
            from ..audit.page import page

            text = page(found)
        if out == "-":
            sys.stdout.write(text)
        else:
            write_bytes(out, text.encode())
            trace = Path(out).with_suffix(".trace.json.gz")
            shutil.copyfile(Path(folder) / "trace.json.gz", trace)
            print(f"page: {out}\ntrace, for ui.perfetto.dev: {trace}")
    return _verdict(found, arguments.fail_on_waits)


def _verdict(found, fail_on_waits: bool) -> int:
    if not (fail_on_waits and found.waits):
        return 0
    from ..audit.markdown import times

    print(f"gapless audit: a step waits {times(found.report.syncs_per_step)}:", file=sys.stderr)
    for each in found.waits:
        print(f"  {each.location or 'unknown line'}: {each.operator or each.call}", file=sys.stderr)
    return 1
