"""Trainers of libraries, where they are installed: they choose the device, call the optimizer, and are ended."""

import pytest

from gapless.audit.audit import audit

LIGHTNING = """
import sys, torch, lightning.pytorch as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 2)

    def training_step(self, batch, index):
        assert batch[0].is_cuda and batch[0].device.type == "cuda"
        loss = nn.functional.cross_entropy(self.body(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

data = TensorDataset(torch.randn(512, 8), torch.randint(0, 2, (512,)))
pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator=sys.argv[1],
           precision=sys.argv[2]).fit(Model(), DataLoader(data, 16))
"""
HUGGING_FACE = """
import sys, torch, transformers

rows = [{"input_ids": torch.arange(8), "labels": torch.tensor(i % 2)} for i in range(64)]
model = transformers.BertForSequenceClassification(transformers.BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32))
transformers.Trainer(model, train_dataset=rows, args=transformers.TrainingArguments(
    sys.argv[1], per_device_train_batch_size=4, report_to=[], disable_tqdm=True, save_strategy="no", bf16=True)).train()
"""


def run(folder, source, *arguments):
    (folder / "train.py").write_text(source)
    return audit(str(folder / "train.py"), arguments, str(folder), device="vgpu:a100", steps=2, warm_up=2, memory=False)


@pytest.mark.parametrize("arguments", [("auto", "32-true"), ("cuda", "16-mixed")])
def test_lightning(tmp_path, arguments):
    pytest.importorskip("lightning")
    found = run(tmp_path, LIGHTNING, *arguments)
    assert found.facts["end"] == "done" and found.facts["kind"] == "optimizer.step()" and found.report.kernels > 10


def test_hugging_face(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    found = run(tmp_path, HUGGING_FACE, str(tmp_path / "out"))
    assert found.facts["end"] == "done" and found.report.kernels > 50
    assert any(each.location.startswith("transformers/") and each.called_at.endswith("train.py:7") for each in found.waits)
