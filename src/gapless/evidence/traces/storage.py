"""Bytes from and to a file, a folder, or object storage (``s3://``, ``gs://``, ``abfs://``, ``http(s)://``, ``memory://``).

URLs go through fsspec, which each kind of storage has a package for. Files appear whole or not at all.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

_URL = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)

# What to install for a kind of storage, where not "gapless[cloud]".
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs", "http": "aiohttp",
             "https": "aiohttp"}
_CREDENTIALS = {"s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or run `aws configure`; a public bucket needs "
                      "storage_options={'anon': True}"}


class StorageError(ValueError):
    """A URL that cannot be read, listed or written; the message says what to do next."""


def is_url(path: str | os.PathLike) -> bool:
    """Whether ``path`` is a URL rather than a path of this machine."""
    return _scheme(path) is not None


def _scheme(path) -> str | None:
    found = _URL.match(path) if isinstance(path, str) else None
    return found.group(1).lower() if found else None


def name_of(path: str | os.PathLike) -> str:
    """The last part of a path or URL, without a query."""
    return os.fspath(path).split("?")[0].replace("\\", "/").rstrip("/").rpartition("/")[2]


def compressed_by_name(path: str | os.PathLike, raw: bytes) -> bytes:
    """``raw`` in gzip where the name of ``path`` ends in ``.gz``. The same bytes give the same result."""
    return gzip.compress(raw, mtime=0) if name_of(path).endswith(".gz") else raw


def read(path: str | os.PathLike, storage_options: dict | None = None) -> bytes:
    """All bytes of a file or URL. Raises OSError for a file, StorageError for a URL.

    ``storage_options``: of the storage's package, such as ``{"anon": True}`` for a public bucket of S3.
    """
    if not is_url(path):
        return Path(path).read_bytes()
    return _attempt(path, "read", storage_options, lambda files, place: files.cat_file(place))


def write(path: str | os.PathLike, raw: bytes, storage_options: dict | None = None) -> None:
    """Write all bytes of a file or URL, or none. Raises OSError for a file, StorageError for a URL."""
    if is_url(path):
        _attempt(path, "write", storage_options, lambda files, place: files.pipe_file(place, raw))
        return
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(raw)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def find(folder: str | os.PathLike, pattern: str, storage_options: dict | None = None) -> dict[str, str]:
    """The files in ``folder`` whose names match ``pattern`` (as a shell does): name within the folder → path or URL,
    sorted by name. Raises StorageError where the folder is none or cannot be listed."""
    if not is_url(folder):
        folder = Path(folder)
        if not folder.is_dir():
            raise StorageError(f"{folder} is {'a file, not a folder' if folder.exists() else 'no folder that exists'}; "
                               "name the folder that holds the traces")
        found = {path.relative_to(folder).as_posix(): str(path) for path in folder.glob(pattern) if path.is_file()}
        return dict(sorted(found.items()))

    def listed(files, place: str) -> dict[str, str]:
        files.invalidate_cache()
        place = place.rstrip("/")
        base = place.lstrip("/") + "/"
        if not files.exists(place):
            raise FileNotFoundError(place)
        return {path.lstrip("/").removeprefix(base): files.unstrip_protocol(path)
                for path in files.glob(f"{place}/{pattern}") if files.isfile(path)}

    return dict(sorted(_attempt(folder, "list", storage_options, listed).items()))


def _attempt(url: str | os.PathLike, what: str, storage_options: dict | None, action):
    scheme = _scheme(url)
    try:
        import fsspec

        files, place = fsspec.core.url_to_fs(url, **(storage_options or {}))
        return action(files, place)
    except ImportError as error:
        package = _PACKAGES.get(scheme, "'gapless[cloud]'")
        raise StorageError(f"cannot {what} {url}: {scheme}:// needs a package that is not installed ({error}); "
                           f"say pip install {package}") from error
    except FileNotFoundError as error:
        raise StorageError(f"{url} does not exist; check the bucket and the name") from error
    # Each kind of storage has errors of its own.
    except Exception as error:
        raise StorageError(f"cannot {what} {url}: {_reason(error, scheme)}") from error


def _reason(error: Exception, scheme: str | None) -> str:
    kind, text = type(error).__name__, str(error).strip() or "no reason given"
    if isinstance(error, NotImplementedError):
        return f"{scheme}:// cannot be written to; write the file elsewhere"
    if isinstance(error, PermissionError) or "Credential" in kind or "Credential" in text:
        hint = _CREDENTIALS.get(scheme, "log in to it, or see the credentials' documentation of its package")
        return f"permission denied, or no credentials ({text}): {hint}"
    if isinstance(error, ValueError) and "Protocol not known" in text:
        return f"no storage is known by {scheme}://; known are s3, gs, abfs, http, https, memory and file"
    return f"{text} ({kind}); check the address, the network and the storage's settings"
