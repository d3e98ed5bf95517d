import base64

import pytest

pytest.importorskip("matplotlib")

from gapless.evidence.pictures.figure import new_figure, save


def a_figure():
    figure = new_figure(4.0, 2.0, "A line.")
    figure.subplots().plot([1, 2])
    return figure


def test_a_notebook_gets_an_image_with_alternative_text():
    bundle, metadata = a_figure()._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == bundle["text/plain"] == "A line."


def test_controls_are_shown_below_the_picture_where_a_page_shows_html():
    figure = a_figure()
    assert figure._repr_mimebundle_()[0]["text/html"].endswith("</div>")
    figure.controls = "<p>controls</p>"
    assert figure._repr_mimebundle_()[0]["text/html"].endswith("</div>\n<p>controls</p>")


def test_a_saved_figure_has_its_alternative_text_inside(tmp_path):
    save(a_figure(), tmp_path / "a.png")
    assert b"Description\x00A line." in (tmp_path / "a.png").read_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "a.png"]


def test_a_failed_save_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        save(a_figure(), tmp_path / "none" / "a.png")
    assert not list(tmp_path.iterdir())
