"""What one run of a script is asked for: from the command to the process that runs it, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

# Files that a run leaves in its folder.
TRACE, MEMORY, FACTS = "trace.json.gz", "memory.json.gz", "facts.json"


STEPS = 3


@dataclass(frozen=True)
class Options:
    """``script``: a path, or a module's name where ``is_module``. ``device``: as for ``gapless.device``; None: the best
    there is. ``folder``: for the files of the run. ``steps`` are recorded after ``warm_up`` ones; None: :data:`STEPS`, or
    a multiple of its loaders' workers, after three, and as many more as the workers have batches ready. ``forward``: a step
    is a forward pass. ``launched``: in the environment that torchrun gives to its only process."""

    script: str
    arguments: tuple[str, ...]
    folder: str
    is_module: bool = False
    device: str | None = None
    steps: int | None = None
    warm_up: int | None = None
    memory: bool = True
    switch: str | None = None  # what is tried (gapless.audit.switches)
    forward: bool = False
    launched: bool = False
    counted: bool = False  # the virtual GPU's host is counted, not measured
    fast: bool = False  # tensors on the virtual GPU have shapes and no values
    watch_s: float = 0.0  # how long the program runs on afterwards (gapless.audit.afterwards)
    began_s: float = 0.0  # when the audit began, as time.time() counts
    copy: str | None = None  # of the current folder, to run in (gapless.audit.side_effects)
    on_cpu: bool = False  # on plain CPU tensors, to see whether an error is the program's own

    def to_json(self) -> str:
        """For :meth:`from_json` in another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """What :meth:`to_json` wrote."""
        given = json.loads(text)
        return cls(**{**given, "arguments": tuple(given["arguments"])})
