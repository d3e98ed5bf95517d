"""``torch.profiler`` on every device the course runs on: PyTorch's own on ``cuda`` and the CPU, the same on ``vgpu``.

    >>> from gapless import profiler
    >>> with profiler.profile(schedule=profiler.schedule(wait=1, warmup=1, active=3, repeat=1),
    ...                       on_trace_ready=profiler.tensorboard_trace_handler("log"),
    ...                       record_shapes=True, profile_memory=True, with_stack=True) as prof:
    ...     for batch in batches:
    ...         train(batch)
    ...         prof.step()
    >>> print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=10))
    >>> prof.trace                                    # a gapless.Trace of the last finished cycle

``schedule``, ``record_function``, ``ProfilerAction`` and ``ProfilerActivity`` are PyTorch's own. Needs torch only.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from typing import Any

import torch
from torch.profiler import ProfilerAction, ProfilerActivity, record_function, schedule, supported_activities

from ..evidence.traces import storage
from ..evidence.traces.averages import event_list
from ..evidence.traces.trace import Trace
from .device import device as choose_device
from .recorder import Recorder, as_trace, distributed_info

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
           "tensorboard_trace_handler"]


class profile(torch.profiler.profile):
    """``torch.profiler.profile``, with two things more: ``device`` and :attr:`trace`.

    Arguments are PyTorch's and have its meaning: ``activities``, ``schedule``, ``on_trace_ready``, ``record_shapes``,
    ``profile_memory``, ``with_stack``, …. So are the methods: ``start``, ``stop``, ``step``, ``export_chrome_trace``,
    ``key_averages``, ``events``, ``export_stacks``, ``add_metadata``, ``add_metadata_json``, ``preset_metadata_json``.

    ``device``: a ``torch.device``, a name as for :func:`gapless.device`, ``"cpu"``, or None for the course's device.

    On the virtual GPU the clock is the modelled one, and

    - ``ProfilerActivity.CUDA`` (or ``PrivateUse1``) means the virtual GPU; what the host computes on CPU tensors takes its
      time between operators and is not recorded itself;
    - ``record_shapes`` gives ``Input Dims`` and ``Input type``; ``with_stack`` the user's innermost line of each operator,
      where PyTorch gives all frames; ``profile_memory`` the card's memory;
    - ``with_modules`` does nothing, as in PyTorch without TorchScript; ``acc_events`` and ``post_processing_timeout_s``
      have no need to;
    - ``with_flops``, ``experimental_config``, ``execution_trace_observer``, lists of activity types and
      ``toggle_collection_dynamic``, ``export_memory_timeline`` are not there: they raise ValueError or NotImplementedError.

    A second profile inside one raises RuntimeError.
    """

    device: torch.device

    def __new__(cls, *, device: torch.device | str | None = None, **arguments):
        chosen = _resolve(device)
        self = super().__new__(_VirtualProfile if cls is profile and chosen.type == "vgpu" else cls)
        self.device = chosen
        return self

    def __init__(self, *, device: torch.device | str | None = None, **arguments):
        if self.device.type == "cpu":
            if arguments.get("activities") is None:
                arguments["activities"] = [ProfilerActivity.CPU]
            if not torch.cuda.is_available():
                # In a PyTorch built for CUDA, Kineto writes to stderr each time a profile starts or finds no GPU.
                os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        super().__init__(**arguments)
        self._finished: Any = None
        self._raw: bytes | None = None
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The trace of the last finished cycle: the one that ``on_trace_ready`` was last called for. Raises RuntimeError
        where none has finished."""
        if self._trace is None:
            self._trace = self._read_trace()
        return self._trace

    def address_in_trace(self, address: int) -> int:
        """What a memory event of the trace that is being recorded calls that address (``untyped_storage().data_ptr()``)."""
        return address

    def _trace_ready(self) -> None:
        self._finished, self._raw, self._trace = self.profiler, None, None
        super()._trace_ready()

    def _no_cycle(self) -> RuntimeError:
        return RuntimeError("no cycle of this profile has finished: read the trace in on_trace_ready or after the `with` "
                            "block, and make sure that the loop calls step() often enough for the schedule's wait, "
                            "warm-up and active steps")

    # -- PyTorch's own profiler -------------------------------------------------------------------

    def _chrome_trace(self) -> bytes:
        """What PyTorch exports of the last finished cycle. It does so once: a second time is an error."""
        if self._finished is None:
            raise self._no_cycle()
        if self._raw is None:
            now, self.profiler = self.profiler, self._finished  # the next cycle may have begun
            try:
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "trace.json")
                    super().export_chrome_trace(path)
                    with open(path, "rb") as file:
                        self._raw = file.read()
            finally:
                self.profiler = now
        return self._raw

    def _read_trace(self) -> Trace:
        return Trace.from_bytes(self._chrome_trace(), "PyTorch's trace")

    def export_chrome_trace(self, path: str | os.PathLike, *args, **kwargs) -> None:
        """Write the last finished cycle, compressed where the name ends in ``.gz``. ``path`` may be a URL as for
        :meth:`gapless.Trace.write`."""
        if any(args) or any(kwargs.values()):
            super().export_chrome_trace(os.fspath(path), *args, **kwargs)
            return
        storage.write(path, storage.compressed_by_name(path, self._chrome_trace()))


class _VirtualProfile(profile):
    """The same on the virtual GPU: PyTorch's steps and actions, another recorder."""

    def __init__(self, *, device=None, **arguments):
        for name, instead in _NOT_HONOURED.items():
            if arguments.get(name):
                raise ValueError(f"the virtual GPU's profiler has no {name}: {instead}")
        super().__init__(**arguments)
        known = {ProfilerActivity.CPU, ProfilerActivity.CUDA, getattr(ProfilerActivity, "PrivateUse1", None)}
        if set(self.activities) - known:
            raise ValueError("the virtual GPU's profiler knows the activities CPU and CUDA, not "
                             f"{set(self.activities) - known}")
        if getattr(self, "activity_configs", None):
            raise ValueError("the virtual GPU's profiler records an activity whole: give ProfilerActivity.CPU and CUDA, "
                             "without lists of activity types")
        everything = arguments.get("activities") is None
        self._host = everything or ProfilerActivity.CPU in self.activities
        self._device = everything or bool(set(self.activities) - {ProfilerActivity.CPU})
        self._recorder: Recorder | None = None
        self._metadata: dict[str, Any] = {}
        self._recorded = None
        self._accumulated: list[Trace] = []

    def prepare_trace(self) -> None:
        self._recorder = Recorder(shapes=self.record_shapes, memory=self.profile_memory,
                                  lines=self.with_stack and self._host, host=self._host, device=self._device)
        self._recorder.prepare()

    def address_in_trace(self, address: int) -> int:
        return self._recorder.number_of(address)

    def start_trace(self) -> None:
        self._recorder.start()
        flags = ("profile_memory", "with_stack", "record_shapes", "with_modules")
        self._metadata = {"distributedInfo": distributed_info(), **{name: 1 for name in flags if getattr(self, name)}}
        if self.custom_trace_id_callback is not None:
            self._metadata["trace_id"] = self.custom_trace_id_callback()
        self._metadata |= {key: json.loads(value) for key, value in self.preset_metadata.items()}

    def stop_trace(self) -> None:
        recorder, self._recorder = self._recorder, None
        self._recorded = recorder.stop()

    def _trace_ready(self) -> None:
        recording, card = self._recorded
        self._finished = recording, card, self._metadata
        self._trace = None
        if self.acc_events:
            self._accumulated.append(self.trace)
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _read_trace(self) -> Trace:
        if self._finished is None:
            raise self._no_cycle()
        recording, card, metadata = self._finished
        return as_trace(recording, card, metadata)

    def export_chrome_trace(self, path: str | os.PathLike, use_python_export: bool = False, **kwargs) -> None:
        if any(kwargs.values()):
            raise ValueError(f"the virtual GPU's profiler exports without {', '.join(kwargs)}: it has no CUDA graphs")
        self.trace.write(path)

    def events(self):
        """All operators, blocks and work of the GPU, as PyTorch's ``EventList``; of all cycles with ``acc_events``."""
        return event_list(self._accumulated or [self.trace], profile_memory=self.profile_memory)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **kwargs):  # type: ignore[override]
        """PyTorch's table: ``.table(sort_by="cuda_time_total", row_limit=10)``."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, **kwargs)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        self._metadata[key] = json.loads(value)

    def get_trace_id(self) -> str | None:
        return self._metadata.get("trace_id")

    def toggle_collection_dynamic(self, enable, activities) -> None:
        raise NotImplementedError("the virtual GPU's profiler cannot change what it records: choose with activities=, "
                                  "or profile twice")

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        raise NotImplementedError("the virtual GPU's profiler has no memory timeline: use profile_memory=True and "
                                  "gapless.views.memory_by_operator(prof.trace)")


_NOT_HONOURED = {
    "with_flops": "count them with torch.utils.flop_counter.FlopCounterMode",
    "experimental_config": "leave it out",
    "execution_trace_observer": "leave it out",
}


def _resolve(device: torch.device | str | None) -> torch.device:
    if isinstance(device, torch.device):
        return device
    return torch.device("cpu") if device == "cpu" else choose_device(device)


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False,
                              use_python_export: bool = False):
    """``torch.profiler.tensorboard_trace_handler``, whose files TensorBoard's profiler plugin can read: torch-tb-profiler
    0.4.3 does not know the names that PyTorch gives since 2.0 (:meth:`gapless.Trace.write_tensorboard`)."""
    if use_python_export:
        warnings.warn("use_python_export makes no difference here: the trace is written by gapless", stacklevel=2)

    def handler(prof: torch.profiler.profile) -> None:
        if not isinstance(prof, profile):
            raise TypeError("this handler needs the trace of gapless.profiler.profile; with torch.profiler.profile use "
                            "torch.profiler.tensorboard_trace_handler")
        prof.trace.write_tensorboard(dir_name, worker_name, compressed=use_gzip)

    return handler
