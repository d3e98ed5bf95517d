"""``gapless trace``: the report of a profiler's trace, or of a folder with the traces of all ranks."""

from __future__ import annotations

import json
import os
import sys


def add_parser(commands) -> None:
    """Add ``trace`` to the command line."""
    parser = commands.add_parser("trace", help="print the report of a profiler's trace, or of the ranks of a run",
                                 description="Print the report of any Kineto (PyTorch profiler) trace, gzip or not; of a "
                                             "folder with a trace a rank: where each rank's time went, its collectives, "
                                             "and who sets the pace.")
    parser.add_argument("file", help="the trace: .json or .json.gz, or a URL such as s3://bucket/trace.json.gz; or a "
                                     "folder, or a URL that ends with /")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--picture", metavar="PNG", help="also draw the timeline (needs matplotlib)")
    parser.add_argument("--partial", action="store_true", help="of a folder: ranks may be missing")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Print, and draw where asked to. Raises TraceError, and ImportError where matplotlib is asked for and missing."""
    from ..evidence.pictures.figure import save
    from ..evidence.pictures.picture import draw
    from ..evidence.report import StepReport
    from ..evidence.traces.trace import Trace

    if os.path.isdir(arguments.file) or arguments.file.endswith("/"):
        return _ranks(arguments)
    report = StepReport.from_trace(Trace.read(arguments.file))
    print(json.dumps(report.to_json(), indent=1) if arguments.json else report)
    if arguments.picture:
        save(draw(report), arguments.picture)
        print(f"picture: {arguments.picture}", file=sys.stderr)
    return 0


def _ranks(arguments) -> int:
    from dataclasses import asdict

    from ..evidence.pictures.distributed import ranks_picture
    from ..evidence.pictures.figure import save
    from ..evidence.ranks.distributed import distributed_view
    from ..evidence.ranks.run import read_ranks
    from ..evidence.ranks.straggler import straggler

    ranks = read_ranks(arguments.file, partial=arguments.partial)
    view = distributed_view(ranks, partial=True)
    found = None if view.problem else straggler(ranks, partial=True)
    if arguments.json:
        print(json.dumps({**asdict(view), "straggler": None if found is None else asdict(found)}, indent=1))
    else:
        print(view)
        if found is not None:
            print(f"\n{found}")
    if arguments.picture:
        figure = ranks_picture(ranks, partial=True)
        if figure is None:
            raise ImportError("drawing needs matplotlib: pip install 'gapless[plots]'")
        save(figure, arguments.picture)
        print(f"picture: {arguments.picture}", file=sys.stderr)
    return 0
