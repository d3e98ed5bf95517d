"""Libraries with a training loop of their own, which choose the device themselves."""

from __future__ import annotations

import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from . import add, program

GROUP = "libraries that train"


def pairs():
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(32, 8, generator=generator), torch.randint(0, 2, (32,), generator=generator))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def on_the_device(model, device):
    where = next(model.parameters()).device
    assert where.type == device.type, f"the library chose {where}"


def _lightning(precision, accumulate):
    def run(device):
        import lightning.pytorch as pl
        import torchmetrics

        class Model(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.body = network()
                self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=2)
                self.losses = []

            def training_step(self, batch, index):
                x, y = batch
                output = self.body(x)
                on_the_device(self, device)
                loss = F.cross_entropy(output, y)
                self.log("loss", loss, prog_bar=True)
                self.log("accuracy", self.accuracy(output, y), on_epoch=True)
                self.losses.append(loss.detach())
                return loss

            def validation_step(self, batch, index):
                self.log("validation", F.cross_entropy(self.body(batch[0]), batch[1]))

            def configure_optimizers(self):
                optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
                return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

        model = Model()
        trainer = pl.Trainer(max_epochs=2, precision=precision, accumulate_grad_batches=accumulate, gradient_clip_val=1.0,
                             logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                             accelerator="cpu" if device.type == "cpu" else "auto")
        trainer.fit(model, DataLoader(pairs(), 8), DataLoader(pairs(), 8))
        return ({"losses": torch.stack(model.losses)} | dict(trainer.callback_metrics)
                | dict(model.named_parameters()))

    return run


for precision in ("32-true", "bf16-mixed", "64-true"):
    add(GROUP, f"lightning {precision}", _lightning(precision, 1), "lightning", "torchmetrics", mixed="mixed" in precision)
add(GROUP, "lightning accumulating", _lightning("32-true", 2), "lightning", "torchmetrics")


@program(GROUP, "lightning")
def fabric(device):
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu" if device.type == "cpu" else "auto")
    model = network()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 0.1))
    on_the_device(model, device)
    found = {}
    for step, (x, y) in enumerate(fabric.setup_dataloaders(DataLoader(pairs(), 8))):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        found[f"loss {step}"] = loss.item()
    return found | dict(model.named_parameters())


def _accelerate(precision):
    def run(device):
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
        from accelerate.utils import set_seed

        AcceleratorState._reset_state(True)
        accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision=precision, gradient_accumulation_steps=2)
        set_seed(0)
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, DataLoader(pairs(), 8), schedule)
        on_the_device(model, device)
        found = {}
        for step, (x, y) in enumerate(loader):
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            found[f"loss {step}"] = accelerator.gather_for_metrics(loss).item()
        return found | accelerator.get_state_dict(model)

    return run


for precision in ("no", "bf16"):
    add(GROUP, f"accelerate {precision}", _accelerate(precision), "accelerate", mixed=precision != "no")


class Sentences(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        if index >= len(self):  # where it ends for who iterates over it, as group_by_length does
            raise IndexError(index)
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 50, (8,), generator=generator)
        return {"input_ids": tokens, "attention_mask": (torch.arange(8) < 8 - index % 3).long(), "labels": torch.tensor(index % 2)}


def _trainer(**arguments):
    def run(device):
        import transformers

        torch.manual_seed(0)
        model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32))
        with tempfile.TemporaryDirectory() as folder:
            trainer = transformers.Trainer(
                model=model, train_dataset=Sentences(), eval_dataset=Sentences(),
                compute_metrics=lambda seen: {"accuracy": (seen.predictions.argmax(-1) == seen.label_ids).mean()},
                args=transformers.TrainingArguments(
                    output_dir=folder, num_train_epochs=2, per_device_train_batch_size=4, logging_steps=2, report_to=[],
                    eval_strategy="epoch", disable_tqdm=True, use_cpu=device.type == "cpu", seed=3,
                    **{"save_strategy": "no"} | arguments))
            trainer.train()
            on_the_device(model, device)
            log = [value for line in trainer.state.log_history for key, value in line.items()
                   if key in ("loss", "grad_norm", "eval_loss", "eval_accuracy")]
        return {"log": torch.tensor(log)} | (dict(model.named_parameters()) if arguments.get("optim") == "sgd" else {})

    return run


# Adam's first steps tell the sign of gradients that are nought but rounding (a key's bias): parameters are compared with SGD.
for name, arguments in {"SGD": {"optim": "sgd"}, "AdamW": {}, "bf16": {"bf16": True}, "gradient_checkpointing": {"gradient_checkpointing": True},
                        "fused AdamW": {"optim": "adamw_torch_fused"}, "saving": {"save_strategy": "epoch"}, "group_by_length": {"group_by_length": True},
                        "checkpointing that is not reentrant": {"gradient_checkpointing": True,
                                                                "gradient_checkpointing_kwargs": {"use_reentrant": False}}}.items():
    add(GROUP, f"transformers.Trainer {name}", _trainer(**arguments), "transformers", "accelerate", mixed="bf16" in arguments)


def _geometric(kind):
    def run(device):
        from torch_geometric import nn as layers
        from torch_geometric.data import Data
        from torch_geometric.loader import DataLoader as Graphs

        torch.manual_seed(0)
        graphs = [Data(x=torch.randn(6, 8), edge_index=torch.randint(0, 6, (2, 14)), y=torch.tensor([i % 2])) for i in range(8)]
        model = {"GCN": layers.GCN, "GAT": layers.GAT, "GIN": layers.GIN, "GraphSAGE": layers.GraphSAGE}[kind](8, 16, 2, 2)
        model.to(device)
        optimizer, found = torch.optim.Adam(model.parameters()), {}
        for step, batch in enumerate(Graphs(graphs, 4)):
            batch = batch.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(layers.global_mean_pool(model(batch.x, batch.edge_index), batch.batch), batch.y)
            loss.backward()
            optimizer.step()
            found[f"loss {step}"] = loss.item()
        return found | dict(model.named_parameters())

    return run


for kind in ("GCN", "GAT", "GIN", "GraphSAGE"):
    add(GROUP, f"torch_geometric {kind}", _geometric(kind), "torch_geometric")
