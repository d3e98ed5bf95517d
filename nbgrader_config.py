"""How nbgrader grades this course. Run nbgrader in this folder."""

import os
import sys
import warnings

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.preprocessors import (
                                    CheckCellMetadata,
                                    ClearOutput,
                                    DeduplicateIds,
                                    GetGrades,
                                    OverwriteCells,
                                    OverwriteKernelspec,
)

from gapless.course.notebooks.stub import YOUR_VERSION
from gapless.grading.autograde import use_keeping_autograde
from gapless.grading.collect import CarefulCollector
from gapless.grading.exchange import CarefulCollect, CarefulReleaseFeedback
from gapless.grading.export import TrueCsv
from gapless.grading.preprocessors import GradeWithPapermill, ReadableText, RestoreLesson

c = get_config()  # noqa: F821 - nbgrader provides it

c.CourseDirectory.course_id = "gapless"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "hand_in", "*.pyc", "__pycache__", "feedback", ".DS_Store"]

# An exercise cell keeps the slow function; only the solution below it goes.
c.ClearSolutions.code_stub = {"python": YOUR_VERSION}

# The learner's notebook is not executed: see autograde/README.md.
c.Autograde.sanitize_preprocessors = [RestoreLesson, ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells,
                                      CheckCellMetadata]
c.Autograde.autograde_preprocessors = [GradeWithPapermill, CheckCellMetadata]
use_keeping_autograde()
c.GenerateFeedback.preprocessors = [GetGrades, ReadableText, CSSHTMLHeaderPreprocessor]
# One folder that cannot be copied stops nobody else's.
c.ExchangeFactory.collect = CarefulCollect
c.ExchangeFactory.release_feedback = CarefulReleaseFeedback

# Archives from Canvas and Moodle, and what lesson.submit() made.
c.ZipCollectApp.collector_plugin = CarefulCollector

# How nbgrader uses its database is nothing that an instructor can mend.
warnings.filterwarnings("ignore", message="Object of type <Submitted")

# A missing score is no 0.
c.ExportApp.plugin_class = TrueCsv

# nbgrader starts alembic by name; it lies beside this interpreter even where no environment is activated.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
