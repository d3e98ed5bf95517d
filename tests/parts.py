"""An exercise with some of its parts otherwise."""

import dataclasses

from gapless.course.exercise import Exercise


def changed(exercise: Exercise, **fields) -> Exercise:
    """``exercise`` with these fields: one of its own, such as ``slow``, or one of a part's, such as ``measurement__full``."""
    whole = {name: value for name, value in fields.items() if "__" not in name}
    for name in {name.partition("__")[0] for name in fields if "__" in name}:
        inner = {key.partition("__")[2]: value for key, value in fields.items() if key.startswith(f"{name}__")}
        whole[name] = dataclasses.replace(getattr(exercise, name), **inner)
    return dataclasses.replace(exercise, **whole)
