"""A PostgreSQL server of one's own: Debian's package, a folder, a socket and no network."""

import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

USER, PASSWORD = "gapless", "geheim"


def find_programs() -> Path | None:
    """The folder of pg_ctl, which Debian does not put on the PATH."""
    found = shutil.which("pg_ctl")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return Path(os.path.realpath(found)).parent if found else places[-1].parent if places else None


class Server:
    """Begun at once. ``url(database)`` is what nbgrader is given."""

    def __init__(self):
        self._programs = find_programs()
        if self._programs is None:
            pytest.skip("there is no PostgreSQL server: apt install postgresql")
        pytest.importorskip("psycopg", reason="the driver is not there: pip install 'gapless[postgres]'")
        self.folder = Path(tempfile.mkdtemp(prefix="gaplesspg"))  # the path of a socket must be short
        self.folder.chmod(0o755)
        self._as = []
        if os.geteuid() == 0:  # which the server refuses
            if shutil.which("setpriv") is None:
                pytest.skip("PostgreSQL does not run as root, and there is no setpriv to be another user")
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self._as = ["setpriv", "--reuid", "nobody", "--regid", str(nobody.pw_gid), "--clear-groups"]
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        self._run("initdb", "-D", "data", "-U", USER, "-E", "UTF8", "-A", "scram-sha-256", "--pwfile", secret, "--no-sync")
        self.start()

    def _run(self, program, *arguments):
        done = subprocess.run([*self._as, self._programs / program, *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, **settings):
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off", **settings}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        # Its output is a file: else who reads ours waits for the server's end.
        with open(self.folder / "start.log", "w") as log:
            subprocess.run([*self._as, self._programs / "pg_ctl", "start", "-w", "-s", "-D", "data", "-l", "log", "-o", options],
                           cwd=self.folder, check=True, stdout=log, stderr=log)

    def stop(self, how="fast"):
        self._run("pg_ctl", "stop", "-w", "-s", "-D", "data", "-m", how)

    def shell(self, do, how="immediate") -> str:
        """``stop`` or ``restart``, for os.system. Immediate: without a word to its clients, as when it crashes."""
        command = [*self._as, self._programs / "pg_ctl", do, "-w", "-s", "-D", self.folder / "data", "-m", how, "-l", self.folder / "log"]
        return f"cd {self.folder} && {shlex.join(map(str, command))} >/dev/null 2>&1"

    @property
    def runs(self) -> bool:
        return (self.folder / "data" / "postmaster.pid").exists()

    def url(self, database, password=PASSWORD) -> str:
        return f"postgresql+psycopg://{USER}:{password}@/{database}?host={self.folder}"

    def execute(self, command, database="postgres"):
        """The rows, where it has some."""
        import psycopg

        with psycopg.connect(host=self.folder, user=USER, password=PASSWORD, dbname=database, autocommit=True) as connection:
            found = connection.execute(command)
            return found.fetchall() if found.description else []

    def copy_of(self, database, name) -> str:
        """A new database like another: its URL."""
        self.execute(f"create database {name} template {database}")
        return self.url(name)

    def close(self):
        if self.runs:
            self.stop("immediate")
        shutil.rmtree(self.folder)
