"""``gapless audit``: anybody's training script, unchanged, for a few steps: what makes it wait."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

# Those of gapless.audit.switches, which needs PyTorch.
_SWITCHES = ("tf32", "amp", "benchmark", "fused", "compile", "workers", "pinned")
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
    group = parser.add_argument_group("what comes out").add_argument
    group("--out", metavar="FILE", help="a .html, .md or .json; - prints it (default: NAME.audit.html)")
    group("--format", choices=sorted(set(_FORMATS.values())), help="default: by the name of FILE, else html")
    group("--against", metavar="BEFORE.json",
          help="say what is better or worse than in this earlier audit; where SCRIPT is a .json too, nothing is run")
    group("--fail-on-waits", action="store_true",
          help="exit with 1 if a recorded step waits, for CI; with --against only where it did not wait before")
    group = parser.add_argument_group("on what it runs").add_argument
    group("--device", metavar="D", help="cuda, vgpu:a100, … (default: GAPLESS_DEVICE, else the best there is)")
    group("--host", choices=("measured", "counted"), default="measured",
          help="on the virtual GPU: measured is the program's own time on this machine; counted is an estimate from its "
               "Python calls, the same on every machine (default: %(default)s)")
    group("--fast", action="store_true",
          help="on the virtual GPU: compute shapes and no values, for a script whose course does not depend on them")
    group("--scratch", action="store_true",
          help="run it in a copy of the current folder, so that its checkpoints and logs overwrite nothing")
    group("-m", dest="is_module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    group = parser.add_argument_group("what is looked at").add_argument
    group("--steps", type=_positive,
          help="steps to record (default: 3, or more, so that a loader's workers make equally many batches)")
    group("--warm-up", type=_positive,
          help="steps before them (default: 3, and as many as the loaders' workers have batches ready)")
    group("--forward", action="store_true",
          help="a step is a forward pass, for a script that does not train (found automatically if it ends soon)")
    group("--no-memory", action="store_true", help="leave out the two steps that find memory by category")
    group("--watch", type=float, default=5.0, metavar="SECONDS",
          help="let it run on for this long, to see what only some steps do (default: %(default)g)")
    group("--try", dest="tries", type=_names, default=(), metavar="NAMES",
          help=f"run the script again with each of these switched on: {', '.join(_SWITCHES)}, or all")
    group("--time-limit", type=float, metavar="SECONDS", help="give up after this long")


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
    from ..audit import against
    from ..audit.audit import audit
    from ..audit.document import document
    from ..audit.launch import AuditError
    from ..files import temporary_folder, write_bytes
    from ..measure.device import device as choose_device
    from ..measure.device import device_name

    given = own_options(arguments)
    script = arguments.script[0]
    if not arguments.is_module and not Path(script).is_file():
        raise AuditError(f"there is no file {script}: name the script that you would give to python")
    device = choose_device(arguments.device)  # before anything runs
    out, kind = _output(arguments, script if arguments.is_module else Path(script).stem)
    before = against.read(arguments.against) if arguments.against else None
    found = compared = None
    with temporary_folder("gapless-audit-") as folder:
        if before is not None and script.endswith(".json"):
            after = against.read(script)
        else:
            if before is not None:
                against.check_same(before, device_name(device), arguments.host if device.type == "vgpu" else "profiler")
            found = audit(script, given, str(folder), is_module=arguments.is_module, device=arguments.device,
                          steps=arguments.steps, warm_up=arguments.warm_up, memory=not arguments.no_memory,
                          forward=arguments.forward, time_limit_s=arguments.time_limit, tries=arguments.tries,
                          counted=arguments.host == "counted", watch_s=max(0.0, arguments.watch),
                          scratch=arguments.scratch, fast=arguments.fast)
            after = document(found)
        if before is not None:
            compared = against.compare(before, after)
        text = _text(kind, script, found, after, compared)
        if out == "-":
            sys.stdout.write(text)
        else:
            write_bytes(out, text.encode())
            print(f"page: {out}")
            if found is not None:
                trace = Path(out).with_suffix(".trace.json.gz")
                shutil.copyfile(folder / "trace.json.gz", trace)
                print(f"trace, for ui.perfetto.dev: {trace}")
    return _verdict(after, compared) if arguments.fail_on_waits else 0


def _output(arguments: argparse.Namespace, name: str) -> tuple[str, str]:
    """The file to write, - for none, and its format. Raises AuditError where it cannot be."""
    from ..audit.launch import AuditError
    from ..files import check_writable

    out = arguments.out or f"{name}.audit.{arguments.format or 'html'}"
    kind = arguments.format or ("html" if out == "-" else _FORMATS.get(Path(out).suffix.lower()))
    if kind is None:
        raise AuditError(f"{out} has no known format: name it .html, .md or .json, or give --format")
    if out != "-":
        try:
            check_writable(out)
        except OSError as error:
            raise AuditError(f"{error}") from None
    return out, kind


def _text(kind: str, script: str, found, after: dict, compared) -> str:
    """What is written: of the audit ``found``, None where nothing was run, and of what it was ``compared`` with, or None."""
    if kind == "json":
        from ..audit.against import with_comparison

        whole = after if compared is None else with_comparison(after, compared)
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    if kind == "md":
        from ..audit.against import comparison_in_markdown
        from ..audit.markdown import markdown

        return "\n".join(([comparison_in_markdown(compared)] if compared else []) + ([markdown(found)] if found else []))
    from ..audit.page import comparison_page, page

    return comparison_page(script, compared) if found is None else page(found, compared)


def _verdict(after: dict, compared) -> int:
    """1 where a step waits, with the lines on standard error; where there is a comparison, only where it did not before."""
    from ..audit.markdown import times

    if compared is None:
        lines = [f"{each['location'] or 'unknown line'}: {each['operator'] or each['call']}" for each in after["waits"]]
        said = f"a step waits {times(after['waits_per_step'])}"
    else:
        lines = [f"{each.location}: {each.operator or 'no operator'}" for each in compared.new_waits]
        said = "a step waits where it did not before, or more often"
    if lines:
        print(f"gapless audit: {said}:", *(f"  {each}" for each in lines), sep="\n", file=sys.stderr)
    return 1 if lines else 0
