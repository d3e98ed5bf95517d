"""A toy course: two exercises that cost next to nothing, so that these tests are about grading and not about a lesson."""

import pytest

from gapless.grading.grade import grade
from gapless.grading.sandbox.confine import Limits

from .postgres import Server
from .toy import PACKAGE, notebook, write
from .toycourse import LESSON, Course


@pytest.fixture
def grade_cells(tmp_path):
    """Grade a notebook of the given cells: a Result."""

    def run(*cells, seconds=30.0, memory_bytes=2**30, **options):
        path = write(notebook(*cells), tmp_path / "77_toy.ipynb")
        return grade(path, "vgpu", 1, lessons=PACKAGE, limits=Limits(seconds=seconds, memory_bytes=memory_bytes), **options)

    return run


@pytest.fixture
def grade_double(grade_cells):
    """Grade a notebook with this cell of the first exercise only: (its checks by name, the whole result)."""

    def run(cell, **options):
        result = grade_cells(cell, **options)
        assert (len(result.verdicts), result.max_score) == (4, 6)
        return {v.id.split(".")[1]: v for v in result.verdicts if v.exercise == "double"}, result

    return run


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """The folder of a course with its gradebook, whose assignment is generated."""
    course = Course(tmp_path_factory.mktemp("released"), quick=True)
    course.nbgrader("generate_assignment", LESSON)
    return course.root


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A server with a database ``toy``, in which the assignment is generated; tests copy it."""
    server = Server()
    try:
        server.execute("create database toy")
        course = Course(tmp_path_factory.mktemp("in_postgres"), quick=True, url=server.url("toy"))
        course.nbgrader("generate_assignment", LESSON)
        yield server
    finally:
        server.close()
