"""The gradebook, nbgrader's database: SQLite in the course's folder, or PostgreSQL on a server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from nbgrader.api import Gradebook, InvalidEntry
from sqlalchemy import make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
)

from .sandbox.confine import GradingError

_WRITER = 0x6761706C657373  # "gapless": the advisory lock of the process that writes
_HELD_SECONDS = 30  # for which a writer may do nothing
_PAUSE_SECONDS = 1.0  # between tries
# libpq's: without them a server that falls silent is waited for for hours.
_LIMITS = {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3",
           "tcp_user_timeout": "60000"}
_LIBPQ = ("postgresql", "postgresql+psycopg", "postgresql+psycopg2")

_T = TypeVar("_T")


class GradebookLost(GradingError):
    """The gradebook cannot be used now, for no submission. What was not stored is graded by the next run."""


def is_sqlite(url: str) -> bool:
    """Whether the gradebook is a file."""
    return url.startswith("sqlite")


def address(url: str) -> str:
    """``url`` with limits on the time that a silent server is waited for, unless it says other ones. Raises GradingError
    where it is none."""
    with _clear(url):
        found = make_url(url)
        if found.drivername in _LIBPQ:
            found = found.update_query_dict({name: value for name, value in _LIMITS.items() if name not in found.query})
        return found.render_as_string(hide_password=False)


def shown(url: str) -> str:
    """``url`` for people: without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(no address of a database)"


@contextlib.contextmanager
def opened(url: str, course_id: str) -> Iterator[Gradebook]:
    """The gradebook. Raises GradingError where the address or the driver is wrong, sqlalchemy's DBAPIError where it cannot
    be used."""
    url = address(url)
    with _clear(url):
        gradebook = Gradebook(url, course_id)
    with gradebook:
        yield gradebook


@contextlib.contextmanager
def _clear(url: str) -> Iterator[None]:
    try:
        yield
    except ArgumentError as error:
        raise GradingError(f"c.CourseDirectory.db_url is not an address of a gradebook ({error}): write it like "
                           "postgresql+psycopg://USER@HOST/NAME, or leave it out for SQLite") from None
    except ImportError as error:
        raise GradingError(f"the gradebook {shown(url)} needs a driver ({error}): pip install 'gapless[postgres]', and "
                           "begin the address with postgresql+psycopg://") from None


@contextlib.contextmanager
def writing(url: str, course_id: str, seconds: int) -> Iterator[Gradebook]:
    """The gradebook in one transaction: what is done in it is stored together in the end, or nothing where it raises.

    nbgrader's own functions commit at every step; here those commits wait. One writes at a time, wherever it runs. Raises
    sqlalchemy's DBAPIError, also where another holds the gradebook for ``seconds``.
    """
    with opened(url, course_id) as gradebook:
        session = gradebook.db
        # In both, a lock that is asked for later may find that what was read before has changed.
        if is_sqlite(url):
            session.execute(text(f"PRAGMA busy_timeout = {1000 * seconds}"))
            session.execute(text("BEGIN IMMEDIATE"))
        else:
            session.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
            session.execute(text(f"SET LOCAL lock_timeout = '{seconds}s'"))
            # The lock of a grader that was cut off goes back.
            session.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{_HELD_SECONDS}s'"))
            session.execute(text(f"SELECT pg_advisory_xact_lock({_WRITER})"))
        commit, flush = session.commit, session.flush
        session.commit = lambda: _flush(flush)
        try:
            yield gradebook
            commit()
        except _NotStored as error:
            session.rollback()
            raise error.__cause__ from None
        except BaseException:
            session.rollback()
            raise


class _NotStored(Exception):
    """nbgrader makes an entry that is wrong of every DBAPIError."""


def _flush(flush: Callable[[], None]) -> None:
    try:
        flush()
    except DBAPIError as error:
        raise _NotStored from error


def check_writable(gradebook: Gradebook) -> None:
    """Raises sqlalchemy's DBAPIError where nothing can be stored; leaves everything as it is."""
    if gradebook.engine.dialect.name == "sqlite":
        # That a disk is full or a folder closed shows at the first change only.
        gradebook.db.execute(text("CREATE TABLE gapless_trial (id INTEGER)"))
    else:
        gradebook.db.execute(text("UPDATE grade SET auto_score = auto_score WHERE id IS NULL"))
    gradebook.db.rollback()


def patiently(url: str, seconds: float, tell: Callable[[str], None], action: Callable[[], _T]) -> _T:
    """What ``action()`` returns, tried again for ``seconds`` where a server cannot be used: it may be started again.

    ``action`` must do no harm a second time. ``tell`` is called with the first failure. Raises GradebookLost
    for what concerns every submission; other errors of the database as they are.
    """
    until = time.monotonic() + seconds
    told = False
    while True:
        try:
            return action()
        except (DBAPIError, InvalidEntry) as raised:
            error = raised.__context__ if isinstance(raised, InvalidEntry) else raised  # nbgrader makes the one of the other
            if not isinstance(error, DBAPIError) or isinstance(error, (DataError, IntegrityError)):
                raise
            passing = isinstance(error, (InterfaceError, InternalError, OperationalError)) and not is_sqlite(url)
            if not passing or time.monotonic() + _PAUSE_SECONDS > until:
                raise GradebookLost(f"the gradebook {shown(url)} cannot be used: {in_words(error)}") from error
            if not told:
                tell(f"the gradebook {shown(url)} cannot be used now ({in_words(error)}): trying for {seconds:g} s")
                told = True
        time.sleep(_PAUSE_SECONDS)


def in_words(error: DBAPIError) -> str:
    """What the database says, in one line."""
    return " ".join(str(error.orig).split())
