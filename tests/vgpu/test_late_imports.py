"""Changes to modules that are imported later."""

import sys

from gapless.vgpu.late_imports import when_imported


def test_a_module_is_changed_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "made_up_module.py").write_text("number = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    when_imported("made_up_module", lambda module: setattr(module, "number", module.number + 1))
    import made_up_module

    assert made_up_module.number == 2
    assert sys.meta_path == finders
    when_imported("made_up_module", lambda module: setattr(module, "number", 7))
    assert made_up_module.number == 7
    monkeypatch.delitem(sys.modules, "made_up_module")
