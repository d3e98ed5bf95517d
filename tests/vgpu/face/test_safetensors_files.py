"""Files of safetensors, and what Hugging Face saves with it."""

import pytest
import torch
from torch import nn

safetensors = pytest.importorskip("safetensors")
from safetensors import torch as files


def test_there_and_back(device, tmp_path, waits):
    path = tmp_path / "a.safetensors"
    files.save_file({"x": torch.arange(6.0, device=device), "y": torch.ones(2, dtype=torch.bfloat16, device=device)}, path)
    for where in ("vgpu:0", "vgpu", device, 0):
        with waits() as found:
            loaded = files.load_file(path, device=where)
        assert loaded["x"].tolist() == [0, 1, 2, 3, 4, 5] and loaded["y"].dtype == torch.bfloat16
        assert {t.device for t in loaded.values()} == {device} and len(found) >= 2
    assert files.load_file(path)["x"].device.type == "cpu"


def test_a_part_of_a_file(device, tmp_path):
    path = tmp_path / "a.safetensors"
    files.save_file({"x": torch.arange(6.0)}, path)
    with safetensors.safe_open(path, framework="pt", device="vgpu:0") as file:
        assert list(file.keys()) == ["x"] and file.get_slice("x").get_shape() == [6]
        assert file.get_slice("x")[1:3].tolist() == [1, 2] and file.get_tensor("x").device == device


def test_tied_weights_are_saved_once(device, tmp_path):
    def tied():
        module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).to(device)
        module[1].weight = module[0].weight
        return module

    first, second = tied(), tied()
    files.save_model(first, tmp_path / "m.safetensors")
    assert len(files.load_file(tmp_path / "m.safetensors")) == 3
    files.load_model(second, tmp_path / "m.safetensors", device="vgpu:0")
    assert second[1].weight is second[0].weight and torch.equal(second[0].weight, first[0].weight)
    with pytest.raises(RuntimeError, match="share memory"):
        files.save_file({"a": first[0].weight, "b": first[1].weight}, tmp_path / "m.safetensors")


def test_hugging_face_saves_and_loads(device, tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=30, n_positions=16)
    model = transformers.GPT2LMHeadModel(config).to(device).eval()
    assert model.lm_head.weight is model.transformer.wte.weight
    model.save_pretrained(tmp_path)
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).to(device).eval()
    assert again.lm_head.weight is again.transformer.wte.weight
    tokens = torch.arange(5, device=device)[None]
    assert torch.equal(again(tokens).logits, model(tokens).logits)
