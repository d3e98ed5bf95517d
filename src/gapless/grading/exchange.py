"""nbgrader's exchange, which one learner's folder cannot stop for the class."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback

from ..files import read_regular
from .standing import BOOKKEEPING, LARGEST_BOOKKEEPING


class CarefulCollect(ExchangeCollect):
    """Collects everybody's folder, whole or not at all. Of one that cannot be copied (too large, a pipe in it) what can be
    is collected, so that autograde reports it; the others follow, and the exit status is 1.
    """

    def copy_files(self):
        self._failed: list[str] = []
        super().copy_files()
        if self._failed:
            self.fail("not collected as they are: " + "; ".join(self._failed))

    def do_copy(self, src, dest, log=None):
        place = Path(dest)
        new = place.with_name(f".{place.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        try:
            super().do_copy(src, str(new), log)
        except (OSError, RuntimeError) as error:
            reason = "; ".join(str(each[2]) for each in error.args[0]) if isinstance(error, shutil.Error) else str(error)
            self._failed.append(f"{place.parent.name}: {reason}")
            new.mkdir(parents=True, exist_ok=True)
            for name in BOOKKEEPING:
                try:
                    (new / name).write_bytes(read_regular(Path(src, name), LARGEST_BOOKKEEPING))
                except OSError as another:
                    self.log.warning("%s of %s is not collected: %s", name, place.parent.name, another)
        os.replace(new, place)


class CarefulReleaseFeedback(ExchangeReleaseFeedback):
    """Releases everybody's pages that there is a way to release. The exchange knows a learner's by the secret that came
    with what they handed in; who has none is named, the others follow, and the exit status is 1."""

    def copy_files(self):
        folders = {Path(page).parent for page in glob.glob(os.path.join(self.src_path, "*.html"))}
        without = {folder for folder in folders if not all((folder / name).is_file() for name in BOOKKEEPING)}
        told = self.coursedir.student_id_exclude
        students = sorted(folder.parent.name for folder in without)
        self.coursedir.student_id_exclude = ",".join([*filter(None, [told]), *students])
        try:
            super().copy_files()
        finally:
            self.coursedir.student_id_exclude = told
        left = [student for student in students if student not in told.split(",")]
        if left:
            self.fail(f"not released, as it was not handed in through the exchange: {', '.join(left)}. Their pages are in "
                      f"{self.src_path}: give them yourself")
