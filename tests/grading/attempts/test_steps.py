"""Attempts on how a step is measured, in the exercises of lessons 03 to 08: it has to be the exercise's own, made, and made in its own
time and memory."""

import pytest

from ..lessoncells import cells
from . import grade_cells

LOADING, CONVOLUTIONS, SLOW_MEMORY, SLOW_LAUNCHES, SLOW_FORMATS, SLOW_METRICS, SLOW_FUNCTIONS = (cells(*where) for where in (
    ("solutions", "04_data_loading"), ("solutions", "05_convolutions"), ("notebooks", "08_memory"), ("notebooks", "06_launch_overhead"),
    ("notebooks", "05_convolutions"), ("notebooks", "03_metric_collection"), ("notebooks", "07_kernel_fusion")))
# Around the function as it was handed out: a block that is there before the call makes room for what the call takes.
BALLAST = """
whole, ballast = {name}, [torch.empty(2**31, dtype=torch.uint8, device="vgpu")]
def {name}(*args, **options):
    ballast.clear()
    try:
        return whole(*args, **options)
    finally:
        ballast.append(torch.empty(2**31, dtype=torch.uint8, device="vgpu"))
"""
FORGED = """
import sys
prefetching = sys.modules["gap" + "less.lessons.data_loading.prefetch.stage"]
whole = prefetching._training
"""

MODULE = """
import sys
def module(name):
    return sys.modules["gap" + "less." + name]
stage = module("course.stage")
"""

# Around the function as it was handed out: what it does is said to be a compiled graph.
COMPILED = MODULE + """
regions, Graph, whole = module("vgpu.compiling.regions"), module("vgpu.compiling.compile_times").Graph, {name}
def {name}(*args):
    with regions.running(Graph(1, False, "0/0", {as_one_launch})) as region:
        return region.returns(whole(*args))
"""

# (exercise, its points) → name → (what is put around the solution, the most that it may earn)
ATTEMPTS = {
    ("prepare", 6): {
        "as it should be": ("", 6),
        "nothing crosses the bus where no values are": ("""
whole = prepare
def prepare(images, mean, std):
    if len(images) < 100:
        return whole(images, mean, std)
    there = torch.empty(images.shape, dtype=torch.uint8, device=mean.device)
    return (there.float() / 255 - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)
""", 0),
        "a result that is kept for the images' address": ("""
whole, kept = prepare, {}
def prepare(images, mean, std):
    if images.data_ptr() not in kept:
        kept[images.data_ptr()] = images, whole(images, mean, std)
    return kept[images.data_ptr()][1]
""", 0),
        "a result that says yes to all questions": ("""
class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True
def prepare(images, mean, std):
    return images.to(mean.device, non_blocking=True).float().as_subclass(Yes)
""", 0),
    },
    ("prefetch", 6): {
        "as it should be": ("", 6),
        "a loop that reads no loss": (FORGED + """
def training(given, device):
    weight = torch.empty(given.options["weight"], device=device) if "shape" in given.options else given.inputs["weight"]
    return lambda batch: (batch[0].view(-1, len(weight)).float() @ weight).mean() + batch[1].float().mean()
prefetching._training = training
""", 0),
        "a loop that leaves out every third batch": (FORGED + """
def training(given, device):
    step, count = whole(given, device), []
    if "shape" not in given.options:
        return step
    return lambda batch: 0.0 if count.append(batch) or len(count) % 3 == 0 else step(batch)
prefetching._training = training
""", 0),
    },
    ("to_device", 5): {
        "as it should be": ("", 5),
        "every other call copies nothing where no values are": ("""
whole, last = to_device, []
def to_device(batch, device):
    images = batch["views"][0][0] if isinstance(batch, dict) and batch.get("views") else None
    if images is None or len(images) < 100:
        return whole(batch, device)
    last.append(whole(batch, device) if len(last) % 2 == 0 else last[-1])
    return last[-1]
""", 0),
    },
    ("train_step", 7): {
        "as it should be": ("", 7),
        # What is given to the slow function at full size is made on the device's side.
        "a default dtype that makes the slow function slower": ("torch.set_default_dtype(torch.float64)", 7),
        "a default dtype that no image has": ("torch.set_default_dtype(torch.float16)", 7),
    },
    ("to_channels_last", 5): {
        "put off until the answer is asked for": (MODULE + """
run, finish = stage.Call.run, stage.Call.finish
def late(self):
    run(self)
    return finish(self)
stage.Call.run, stage.Call.finish = lambda self: torch.zeros(1, device="vgpu"), late
""", 0),
    },
    ("collect", 5): {
        "in a thread": ("""
import threading
whole = collect
def collect(outputs, targets):
    found = []
    thread = threading.Thread(target=lambda: found.append(whole(outputs, targets)))
    thread.start()
    thread.join()
    return found[0]
""", 0),
        "a host that tells no time": (MODULE + """
link = module("vgpu.boundary.link")
whole_news = link.Link._with_news
def news(self, message):
    found = whole_news(self, message)
    found.pop("host", None)
    return found
link.Link._with_news = news
""", 0),
        "said to be a compiled graph": (COMPILED.format(name="collect", as_one_launch=True), 0),
    },
    ("swish", 5): {
        "what is kept for the backward pass lies in memory that was taken before": (MODULE + """
state, arenas, whole_begin = module("vgpu.process.state").state, {}, stage.LocalStage.begin
def begin(self, given):
    valued = state.shape_only is None
    if valued not in arenas:
        arenas[valued] = torch.empty(2**27 if valued else 2**32, device="vgpu")
    return whole_begin(self, given)
stage.LocalStage.begin = begin
whole, place = swish, [0]
def pack(tensor):
    there = arenas[state.shape_only is None][place[0]:place[0] + tensor.numel()].view(tensor.shape)
    place[0] = (place[0] + -(-tensor.numel() // 128) * 128) % 2**26
    return there.copy_(tensor)
def swish(x):
    if x.numel() < 4096 or x.dtype != torch.float32:
        return whole(x)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return whole(x)
""", 0),
    },
    ("accumulate", 6): {"ballast": (BALLAST.format(name="accumulate"), 0)},
    ("clip", 6): {"said to be a compiled graph": (COMPILED.format(name="clip", as_one_launch=False), 0)},
    ("update_average", 5): {
        "the first call does the work of all whose inputs it finds": ("""
import gc
whole, known, done = update_average, set(), set()
def update_average(averages, parameters, decay):
    parameters = list(parameters)
    if all(id(average) in done for average in averages):
        done.difference_update(id(average) for average in averages)
        with torch.no_grad():
            return [average.mul_(1) for average in averages[:1]]
    for frame in [each.gi_frame for each in gc.get_objects() if type(each) is type((_ for _ in ())) and each.gi_frame]:
        found = frame.f_locals
        if "averages" in found and "parameters" in found and found["averages"] and found["averages"][0] is not averages[0]:
            with torch.no_grad():
                whole(found["averages"], found["parameters"], decay)
            done.update(id(average) for average in found["averages"])
    whole(averages, parameters, decay)
""", 0),
        "a graph that is captured before": (MODULE + """
whole_begin, ready, backend, whole = stage.LocalStage.begin, {}, torch.get_device_module("vgpu"), update_average
def begin(self, given):
    call = whole_begin(self, given)
    found, graph = call._parts.gi_frame.f_locals, backend.CUDAGraph()
    with torch.Stream("vgpu"):
        graph.capture_begin()
        whole(list(found["averages"]), list(found["parameters"]), given.options["decay"])
        graph.capture_end()
    ready[id(found["averages"][0]) if found["averages"] else 0] = graph
    return call
stage.LocalStage.begin = begin
def update_average(averages, parameters, decay):
    if averages and id(averages[0]) in ready:
        return ready[id(averages[0])].replay()
    return whole(averages, parameters, decay)
""", 0),
    },
}


def check(lesson_id, solutions, exercises, folder):
    tried = [(f"{name}_{number}", solutions[name] + source + f"\n{name}_{number} = {name}", most, words)
             for (name, points), attempts in ATTEMPTS.items() if name in exercises
             for number, (words, (source, most)) in enumerate(attempts.items())]
    found = grade_cells(lesson_id, {name: source for name, source, _, _ in tried}, folder)
    other = {(name, words): earned for (name, _, most, words), earned in zip(tried, found) if earned[0] != most}
    assert not other


@pytest.mark.slow
def test_a_loading_step_is_made_or_earns_nothing(tmp_path):
    check("78_loading", LOADING, ("prepare", "prefetch", "to_device"), tmp_path)


@pytest.mark.slow
def test_what_a_cell_switches_is_not_switched_for_the_slow_function(tmp_path):
    check("76_convolutions", CONVOLUTIONS, ("train_step",), tmp_path)


@pytest.mark.slow
def test_memory_that_is_set_aside_saves_nothing(tmp_path):
    check("75_memory", SLOW_MEMORY, ("accumulate",), tmp_path)
    check("72_functions", SLOW_FUNCTIONS, ("swish",), tmp_path)


@pytest.mark.slow
def test_work_that_is_put_off_is_not_made(tmp_path):
    check("76_convolutions", SLOW_FORMATS, ("to_channels_last",), tmp_path)


@pytest.mark.slow
def test_a_host_that_is_not_counted_is_no_better(tmp_path):
    check("73_metrics", SLOW_METRICS, ("collect",), tmp_path)


@pytest.mark.slow
def test_no_call_does_the_work_of_the_next(tmp_path):
    check("74_launches", SLOW_LAUNCHES, ("update_average",), tmp_path)


@pytest.mark.slow
def test_a_graph_that_waits_is_compiled_no_further(tmp_path):
    check("74_launches", SLOW_LAUNCHES, ("clip",), tmp_path)
