#!/usr/bin/env bash
# All that is to be learnt from a quarter of an hour with a real GPU, in order of worth, each with its own time limit: a later
# one is cut short before an earlier one is lost. Notebooks, grading, audits and tests run two at a time (more disturb each
# other: a step of lesson 06 took 1035 ms beside ten others), the rest alone.
# Results in $OUT (default: gpu-visit/), at most eight files; commit them under records/.
# Needs torch with CUDA, papermill and ipykernel for the notebooks, and this repository as the folder to run in; installs nothing.
#   benchmarks/gpu_visit.sh [SECONDS [PATTERN]]    how long the whole visit may take (default 600); only what is named so
set -uo pipefail
cd "$(dirname "$0")/.."
export OUT="${OUT:-gpu-visit}" PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
mkdir -p "$OUT"
END=$((SECONDS + ${1:-600}))
ONLY="${2:-.}"
LOG="$OUT/visit.log"
AT_ONCE="${AT_ONCE:-2}"
command -v bwrap > /dev/null && export UNCONFINED="" || export UNCONFINED="--unconfined"
SCRATCH="$(mktemp -d)"
trap 'rm -rf "$SCRATCH"' EXIT

# run NAME LIMIT_SECONDS COMMAND…: with what is left of the visit at most.
run() {
    local name="$1" limit="$2" left=$((END - SECONDS)) began=$SECONDS
    [[ "$name" =~ $ONLY ]] || return 0
    shift 2
    if [ "$left" -lt 5 ]; then echo "== $name: no time left" | tee -a "$LOG"; return; fi
    [ "$limit" -gt "$left" ] && limit="$left"
    local out="$SCRATCH/$name"
    timeout -k 5 "$limit" "$@" > "$out" 2>&1
    local status=$?
    {
        flock 9
        { echo "== $name: exit $status after $((SECONDS - began)) s"; tail -n 200 "$out"; } >> "$LOG"
        echo "== $name: exit $status after $((SECONDS - began)) s, $((END - SECONDS)) s left"
    } 9> "$SCRATCH/lock"
}

# beside NAME LIMIT_SECONDS COMMAND…: side by side with others.
beside() {
    while [ "$(jobs -rp | wc -l)" -ge "$AT_ONCE" ]; do wait -n; done
    run "$@" &
}

gapless() { python -m gapless.commands.cli "$@"; }
audit() { gapless audit --device cuda --out - --format md --no-memory "benchmarks/audited/$1.py"; }
# A solved notebook's cells in a Jupyter kernel, then what they print.
notebook() {
    mkdir -p "$SCRATCH/notebooks"
    timeout "${NOTEBOOK_SECONDS:-170}" python -m papermill --no-progress-bar --cwd "solutions/$1" "solutions/$1/$1.ipynb" "$SCRATCH/notebooks/$1.ipynb" || echo "STOPPED"
    python - "$SCRATCH/notebooks/$1.ipynb" <<'CELLS'
import json, sys
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    for out in cell.get("outputs", ()):
        text = out.get("text") or out.get("traceback") or out.get("data", {}).get("text/markdown") or out["data"].get("text/plain", "")
        print("".join(text)[:1500])
CELLS
}
export SCRATCH
export -f gapless audit notebook

run machine 30 bash -c 'nvidia-smi; lscpu | head -20; gapless doctor --short'
# Each solution, checked as in a notebook: what a real card says of times, kernels and memory. CHECKS: of which lessons.
run checks 400 python benchmarks/checks.py --device cuda --folders solutions --only "${CHECKS:-*}" --out "$OUT/checks.json"
for lesson in solutions/{10,01,00,06,05,02,03,07,04,09}_*; do
    beside "notebook-${lesson#solutions/}" 200 bash -c 'GAPLESS_DEVICE=cuda GAPLESS_HOME="$SCRATCH/home" notebook "$1"' _ "${lesson#solutions/}"
done
for lesson in solutions/{02,03,06,07,08,05,04}_*; do
    beside "grade-${lesson#solutions/}" 150 bash -c 'gapless grade "$1"/*.ipynb --device cuda $UNCONFINED' _ "$lesson"
done
wait
run notebook-08_memory 200 bash -c 'GAPLESS_DEVICE=cuda GAPLESS_HOME="$SCRATCH/home" notebook 08_memory'  # fills the card
[ -d "$SCRATCH/notebooks" ] && tar -czf "$OUT/notebooks.tgz" -C "$SCRATCH" notebooks
run census 60 bash -c 'gapless census --device cuda --out "$OUT/census.json"'
run operators 120 python -m benchmarks.operators_on_a_gpu --device cuda --seconds "${OPERATORS_SECONDS:-75}" --out "$OUT/operators.json"
run validate 120 bash -c 'gapless validate --device cuda --out "$OUT/validation.json"'
run record 150 bash -c 'gapless record --device cuda --out "$OUT/headlines.json"'
run calibrate 120 bash -c 'gapless calibrate --device cuda --out "$OUT/card.json"'
# What a graph's launch takes by its number of kernels, gaps, and optimizers by lists and fused.
run graphs 60 python benchmarks/graph_launches.py --device cuda
# Does it give the blocks that it gives on a runtime without a GPU, what do cudaMalloc and cudaFree take, and where does a
# card with room enough refuse.
run allocator 40 python benchmarks/allocator_on_a_gpu.py
run resnet50 60 python -c "
import gapless
from gapless.lessons.convolutions.published import resnet50_table
print(resnet50_table(gapless.device()))"
# A process each: a plan that was chosen without the autotuner stays.
for tuned in False True; do
    run "layer-tuned-$tuned" 40 python -c "
import gapless
from gapless.lessons.convolutions.workload import Fixes, layer_times
print('forward, forward and backward ms:', layer_times(gapless.device(), Fixes(tuned=$tuned)))"
done
for script in transformer adversaries coder digits words; do
    beside "audit-$script" 60 bash -c 'audit "$1"' _ "$script"
done
beside tests 150 python -m pytest -q -p no:cacheprovider tests/measure tests/evidence
beside memory-by-category 60 python -c "
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
wait
run worker-costs 60 python benchmarks/worker_costs.py
run debug-costs 40 python benchmarks/debug_costs.py
