import pytest

from .reference import solution


@pytest.fixture(scope="session")
def solutions():
    """The functions of lesson 02's reference solution."""
    return solution("02_masked_loss")


def pytest_collection_modifyitems(items):
    """The tests of one exercise in a row: one worker gets them, and finds out once what is right on its inputs."""
    ours = [place for place, item in enumerate(items) if item.path.name == "test_exercises.py" and hasattr(item, "callspec")]
    first = {}  # of each exercise: where it comes first

    def exercise(place):
        params = items[place].callspec.params
        return first.setdefault((params["lesson_id"], params["name"]), place)

    for place, item in zip(ours, [items[other] for other in sorted(ours, key=exercise)]):
        items[place] = item
