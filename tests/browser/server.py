"""JupyterLab's server, as ``gapless lab`` and ``jupyter lab`` start it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from gapless.commands.lab import command

GAPLESS_LAB = ["lab", *command(Path("notebooks"), [])[3:]]  # behind the interpreter, -m and jupyterlab
# Else it asks whether it should, above what is to be clicked.
NO_NEWS = "lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings", {"fetchNews": "false"}
PATIENCE_S = 300  # for the server, with other tests on the machine


@contextlib.contextmanager
def served(*arguments: str, cwd: Path, home: Path, **variables: str):
    """The address that JupyterLab, started in ``cwd``, gives to the browser, while it serves. Its settings and what it writes
    to the terminal lie in ``home``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    settings = Path(own["JUPYTER_CONFIG_DIR"], NO_NEWS[0])
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(NO_NEWS[1]))
    said = home / "jupyterlab.log"
    with open(said, "w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter", *arguments, "--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token="],
            cwd=cwd, env={**os.environ, **own, **variables}, stdout=log, stderr=log)
    try:
        yield _address(server, said)
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE_S)


def _address(server: subprocess.Popen, said: Path) -> str:
    """Where it is, once it listens there."""
    deadline = time.monotonic() + PATIENCE_S
    while server.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)\S*", said.read_text()):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(found[1])), 1):
                return found[0]
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab does not answer:\n{said.read_text()}")
