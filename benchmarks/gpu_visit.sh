#!/usr/bin/env bash
# All that is to be learnt from an hour with a real GPU, in order of worth, each with its own time limit: a later one is cut
# short before an earlier one is lost. Results in $OUT (default: gpu-visit/), at most eight files; commit them under records/.
# Needs torch with CUDA, and this repository as the folder to run in; installs nothing.
#   benchmarks/gpu_visit.sh [SECONDS]        how long the whole visit may take (default 1500)
set -uo pipefail
cd "$(dirname "$0")/.."
export OUT="${OUT:-gpu-visit}" PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$OUT"
END=$((SECONDS + ${1:-1500}))
LOG="$OUT/visit.log"
: > "$LOG"

# run NAME LIMIT_SECONDS COMMAND…: with what is left of the visit at most.
run() {
    local name="$1" limit="$2" left=$((END - SECONDS)) began=$SECONDS
    shift 2
    if [ "$left" -lt 10 ]; then echo "== $name: no time left" | tee -a "$LOG"; return; fi
    [ "$limit" -gt "$left" ] && limit="$left"
    timeout "$limit" "$@" > "$OUT/.out" 2>&1
    local status=$?
    { echo "== $name: exit $status after $((SECONDS - began)) s"; tail -n 60 "$OUT/.out"; } >> "$LOG"
    echo "== $name: exit $status after $((SECONDS - began)) s"
    rm -f "$OUT/.out"
}

gapless() { python -m gapless.commands.cli "$@"; }
export -f gapless

run "what is here" 60 bash -c 'nvidia-smi; gapless doctor --short'
run census 120 bash -c 'gapless census --device cuda --out "$OUT/census.json"'
run calibrate 300 bash -c 'gapless calibrate --device cuda --out "$OUT/card.json"'
run validate 300 bash -c 'gapless validate --device cuda --out "$OUT/validation.json"'
run "validate, calibrated" 300 bash -c 'gapless validate --device cuda --card "$OUT/card.json" --out "$OUT/validation_calibrated.json"'
run record 300 bash -c 'gapless record --device cuda --out "$OUT/headlines.json"'
# A process each: a plan that was chosen without the autotuner stays.
for tuned in False True; do
    run "the talk's layer, tuned=$tuned" 60 python -c "
import gapless
from gapless.lessons.convolutions.workload import Fixes, layer_times
print('forward, forward and backward ms:', layer_times(gapless.device(), Fixes(tuned=$tuned)))"
done
run "ResNet-50 in two formats and precisions" 120 python -c "
import gapless
from gapless.lessons.convolutions.published import resnet50_table
print(resnet50_table(gapless.device()))"
run "graphs: launches by number of kernels, gaps; optimizers by lists and fused" 120 python benchmarks/graph_launches.py --device cuda
# The allocator on the card itself: does it give the blocks that it gives on a runtime without a GPU, what do cudaMalloc and
# cudaFree take, and where does a card with room enough refuse.
run "the allocator" 60 python benchmarks/allocator_on_a_gpu.py
run "memory by category" 120 python -c "
import torch, gapless
from torch import nn
device = gapless.device()
net = nn.Sequential(*(part for _ in range(8) for part in (nn.Linear(2048, 2048), nn.ReLU()))).to(device)
optimizer = torch.optim.Adam(net.parameters())
def step():
    x = torch.randn(4096, 2048).to(device)
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
print(gapless.views.memory_by_category(gapless.memory_profile(step, device=device)))
print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())"
run "what workers cost" 120 python benchmarks/worker_costs.py
run "what debug aids cost" 60 python benchmarks/debug_costs.py
run "an audit" 60 bash -c 'gapless audit --device cuda --out "$OUT/audit.md" benchmarks/audited/transformer.py; cat "$OUT/audit.md"'
for script in adversaries coder digits words; do
    run "an audit: $script" 60 bash -c 'gapless audit --device cuda --out - --format md --no-memory "benchmarks/audited/$1.py"' _ "$script"
done
run "tests on cuda" 300 bash -c 'GAPLESS_DEVICE=cuda python -m pytest -q -p no:cacheprovider tests/lessons/test_two_clocks.py tests/commands/test_validate.py tests/commands/test_calibrate.py tests/measure'
for lesson in solutions/[0-9]*; do
    run "solved $lesson on cuda" 120 bash -c 'GAPLESS_DEVICE=cuda gapless grade "$1"/*.ipynb --device cuda' _ "$lesson"
done
