"""What is done as soon as a module has been imported."""

import sys
import types

import pytest

from gapless.vgpu.process import imports


def test_after_the_first_import_and_at_once_after_it(tmp_path, monkeypatch):
    (tmp_path / "chooser").mkdir()
    (tmp_path / "chooser" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "chooser" / "device.py").write_text("def choose():\n    return 'cpu'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    imports.after_import("chooser.device", seen.append)
    assert seen == []
    try:
        import chooser.device

        assert seen == [chooser.device]
        assert "def choose" in chooser.device.__loader__.get_source("chooser.device")
        imports.after_import("chooser.device", seen.append)
        assert len(seen) == 2
    finally:
        for name in ("chooser", "chooser.device"):
            sys.modules.pop(name, None)


def test_a_name_is_replaced_where_it_was_imported():
    first, second, other = (types.ModuleType(name) for name in ("chooser", "chooser.user", "stranger"))
    first.choose = second.choose = other.choose = lambda: "cpu"
    sys.modules.update({"chooser": first, "chooser.user": second, "stranger": other})
    try:
        imports.replace(first, "choose", lambda: "vgpu")
        assert (first.choose(), second.choose(), other.choose()) == ("vgpu", "vgpu", "cpu")
        first.choose.__module__ = "chooser.deep"  # the library's own: who has it has it from there
        other.choose = first.choose
        imports.replace(first, "choose", lambda: "other")
        assert (first.choose(), second.choose(), other.choose()) == ("other", "other", "other")
    finally:
        for name in ("chooser", "chooser.user", "stranger"):
            del sys.modules[name]
    with pytest.raises(AttributeError):
        imports.replace(first, "device", None)
