"""Libraries that choose the device themselves choose the virtual GPU."""

import gc
import types
import warnings

import pytest
import torch
from torch import nn

from gapless import vgpu
from gapless.vgpu import libraries

from .. import forked


@pytest.fixture(autouse=True)
def nothing_left():
    """Trainers leave cycles, whose end would be Python's work in whatever is measured next."""
    yield
    gc.collect()


def batches():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.utils.data.TensorDataset(torch.randn(16, 8, generator=generator),
                                           torch.randint(0, 2, (16,), generator=generator))
    return torch.utils.data.DataLoader(pairs, 8)


def test_nothing_is_imported_that_the_program_does_not_import():
    program = ("import sys, gapless\ngapless.device('vgpu:a100')\n"
               f"print([name for name in {sorted(libraries.LINES)} if name in sys.modules])")
    done = forked.run("-c", program, imports=forked.PYTORCH)
    done.check_returncode()
    assert done.stdout.strip() == "[]"


def test_a_version_that_chooses_otherwise_is_a_warning_with_the_line():
    module = types.ModuleType("accelerate.state")
    with pytest.warns(libraries.NotToldWarning, match="ACCELERATE_TORCH_DEVICE"):
        libraries._telling("accelerate.state", libraries.TELLS["accelerate.state"])(module)


def test_each_library_that_is_told_has_a_line_too():
    assert libraries.TOLD <= set(libraries.LINES)


# -- accelerate and transformers --------------------------------------------------------------------


@pytest.fixture
def accelerate(monkeypatch):
    found = pytest.importorskip("accelerate")
    for name in ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_TORCH_DEVICE", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    found.state.AcceleratorState._reset_state(True)
    yield found
    found.state.AcceleratorState._reset_state(True)


@pytest.mark.parametrize("precision, dtype", [("no", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_accelerate(precision, dtype, accelerate, device):
    accelerator = accelerate.Accelerator(mixed_precision=precision)
    assert accelerator.device == device
    seen = []
    model = nn.Sequential(nn.Linear(8, 2))
    model[0].register_forward_hook(lambda module, inputs, output: seen.append((output.device, output.dtype)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, batches())
    for x, y in loader:
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert seen == [(device, dtype)] * 2
    if precision == "fp16":
        assert accelerator.scaler.is_enabled() and accelerator.scaler._scale.device == device


def test_accelerate_on_the_cpu_where_it_is_asked_for(accelerate):
    assert accelerate.Accelerator(cpu=True).device == torch.device("cpu")


def test_accelerate_maps_a_model_to_the_card(accelerate, device):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    assert accelerate.infer_auto_device_map(model) == {"": device}


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"input_ids": torch.randint(0, 50, (8,), generator=generator), "labels": torch.tensor(index % 2)}


def train(transformers, folder, **arguments):
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                     intermediate_size=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    trainer = transformers.Trainer(
        model=transformers.BertForSequenceClassification(config), train_dataset=Tokens(), eval_dataset=Tokens(),
        args=transformers.TrainingArguments(output_dir=str(folder), max_steps=2, report_to=[], save_strategy="no",
                                            disable_tqdm=True, **arguments))
    return trainer, trainer.train().training_loss


@pytest.mark.parametrize("arguments", [{}, {"fp16": True}, {"bf16": True}], ids=["fp32", "fp16", "bf16"])
def test_trainer(arguments, accelerate, device, tmp_path):
    transformers = pytest.importorskip("transformers")
    trainer, loss = train(transformers, tmp_path, **arguments)
    assert trainer.args.device == device and trainer.args.n_gpu == 1
    assert next(trainer.model.parameters()).device == device
    assert vgpu.timeline().launches
    accelerate.state.AcceleratorState._reset_state(True)
    on_cpu, expected = train(transformers, tmp_path, use_cpu=True)
    assert next(on_cpu.model.parameters()).device == torch.device("cpu")
    assert loss == pytest.approx(expected, rel=1e-5 if not arguments else 1e-2)


# -- Lightning --------------------------------------------------------------------------------------


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(request.param)


def fit(lightning, **arguments):
    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(8, 2)

        def training_step(self, batch, index):
            x, y = batch
            output = self.layer(x)
            self.seen = (output.device, output.dtype)
            return nn.functional.cross_entropy(output, y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    model = Model()
    trainer = lightning.Trainer(max_steps=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, **arguments)
    trainer.fit(model, batches())
    return trainer, model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accelerator", ["auto", "gpu", "vgpu"])
def test_lightning(accelerator, lightning, device):
    trainer, model = fit(lightning, accelerator=accelerator)
    assert trainer.strategy.root_device == device
    assert model.seen == (device, torch.float32)
    _, on_cpu = fit(lightning, accelerator="cpu")
    assert on_cpu.seen[0] == torch.device("cpu")
    torch.testing.assert_close(model.layer.weight.cpu(), on_cpu.layer.weight)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision, dtype", [("16-mixed", torch.float16), ("bf16-mixed", torch.bfloat16)])
def test_lightning_in_mixed_precision(precision, dtype, lightning, device, recwarn):
    trainer, model = fit(lightning, precision=precision)
    assert model.seen == (device, dtype)
    scaler = trainer.precision_plugin.scaler
    assert (scaler is not None and scaler.is_enabled()) == (precision == "16-mixed")
    assert not [each for each in recwarn if "CUDA is not available" in str(each.message)]


@pytest.mark.filterwarnings("ignore")
def test_lightning_has_one_device(lightning):
    with pytest.raises(RuntimeError, match="there is one virtual GPU"):
        lightning.Trainer(devices=2)


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
@pytest.mark.filterwarnings("ignore")
def test_fabric(precision, device):
    fabric = pytest.importorskip("lightning.fabric").Fabric(precision=precision)
    fabric.launch()
    model = nn.Linear(8, 2)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 0.1))
    output = model(torch.ones(4, 8, device=fabric.device))
    assert output.device == fabric.device == device
    fabric.backward(output.sum())
    optimizer.step()


def test_torch_geometric(device):
    found = pytest.importorskip("torch_geometric")
    assert found.device("auto") == device
    assert found.device("cpu") == torch.device("cpu")


def test_ignite(device):
    engine = pytest.importorskip("ignite.engine")
    import ignite.distributed

    assert ignite.distributed.device() == device
    model = nn.Linear(8, 2).to(device)
    trainer = engine.create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss(),
                                               device=ignite.distributed.device())
    assert trainer.run(batches(), max_epochs=1).iteration == 2


def test_fastai(device):
    found = pytest.importorskip("fastai.torch_core")
    assert found.default_device() == found.default_device(True) == device
    assert found.default_device(False) == torch.device("cpu")
    found.default_device(None)


def test_sentence_transformers(device):
    assert pytest.importorskip("sentence_transformers.util").get_device_name() == str(device)
