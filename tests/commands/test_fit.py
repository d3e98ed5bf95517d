"""``gapless fit``: what it writes, and what it refuses."""

import json

import pytest

from gapless.commands.cli import main
from gapless.fidelity import measured
from gapless.vgpu.hardware.cards import fitted

pytest.importorskip("scipy")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Every 40th of the shipped operators, as a table."""
    import gzip

    lines = gzip.decompress((measured.FOLDER / "operators.csv.gz").read_bytes()).decode().splitlines()
    path = tmp_path_factory.mktemp("measured") / "operators.csv"
    path.write_text("\n".join([lines[0], *lines[1::40]]) + "\n", encoding="utf-8")
    return path


def test_a_model_is_fitted_and_written_elsewhere(sample, tmp_path, capsys):
    out = tmp_path / "convolutions.json"
    assert main(["fit", "convolutions", "--measured", str(sample), "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["command"] == f"gapless fit convolutions --measured {sample}"
    shipped = json.loads((fitted.FOLDER / "convolutions.json").read_text())
    assert set(found) == set(shipped) and set(found["shared"]) == set(shipped["shared"])
    assert found["shared"]["math"] == pytest.approx(shipped["shared"]["math"], rel=0.2)
    assert str(out) in capsys.readouterr().out


@pytest.mark.parametrize("arguments, message", [
    (["produce"], "no model is called 'produce'; known are streaming, products"),
    (["products", "--leave-out", "k80"], "no card is called 'k80'; known are t4, "),
    (["products", "--leave-out", "t4"], "with --leave-out give --out FILE too"),
    (["--out", "here.json"], "--out and --leave-out are for one model"),
    (["products", "--measured", "nothing.csv"], "nothing.csv: No such file"),
])
def test_what_cannot_be_is_said(arguments, message, capsys):
    assert main(["fit", *arguments]) == 2
    assert message in capsys.readouterr().err
