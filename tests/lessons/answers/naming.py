"""Lesson 09, find_straggler: right answers that are not what the reference solution does, and wrong ones."""

from collections import defaultdict

import numpy as np

from gapless.lessons.data_parallel.find_straggler import mistakes


def _set(spans):
    """Joined intervals as two sorted lists."""
    found = []
    for start, end in sorted((span.start_us, span.end_us) for span in spans):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def _both(one, other):
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in one for c, d in other)


def by_intersection(traces, slower=1.3, middle=np.median, elements=True, others=True, text=False):
    """Exposed is NCCL less what it shares with computing; who waits in NCCL least is late."""
    exposed, compute, loading, times, groups = [], [], [], [], defaultdict(dict)
    for rank, trace in enumerate(traces):
        kernels = [s for s in trace.spans if s.category == "kernel"]
        nccl, rest = _set(s for s in kernels if "nccl" in s.name), _set(s for s in kernels if "nccl" not in s.name)
        busy = _set(s for s in trace.spans if s.category in ("kernel", "memcpy", "memset"))
        blocks = _set(s for s in trace.spans if s.name.startswith("enumerate(DataLoader)#") and s.category == "annotation")
        length = [sum(b - a for a, b in each) for each in (nccl, rest, blocks)]
        exposed.append(length[0] - _both(nccl, rest))
        compute.append(length[1])
        loading.append(length[2] - _both(blocks, busy))
        times.append(busy[-1][1] - busy[0][0])
        for s in kernels:
            if "nccl" in s.name:
                key = s.args["Process Group Ranks"], s.args["Collective name"], s.args["In msg nelems"] if elements else 0
                groups[key].setdefault(rank, []).append(s.end_us - s.start_us)
    late = int(np.argmin(exposed))
    other = [rank for rank in range(len(traces)) if rank != late]
    if np.median([exposed[rank] for rank in other]) - exposed[late] > 0.05 * max(times):
        excess = [numbers[late] - np.median([numbers[rank] for rank in other]) for numbers in (compute, loading)]
        return {"rank": late, "why": ("compute", "input")[int(np.argmax(excess))]}
    if np.median(exposed) < 0.2 * max(times):
        return {"rank": None, "why": None}
    kinds = [(*key[1:], len(of_rank)) for key, of_rank in groups.items()]
    groups = {key: of_rank for (key, of_rank), kind in zip(groups.items(), kinds) if kinds.count(kind) > 1}
    least = {key: middle(np.min(list(of_rank.values()), axis=0)) for key, of_rank in groups.items()}
    fastest = {key: min(us for other, us in least.items() if other[1:] == key[1:] and len(groups[other]) == len(groups[key]))
               for key in groups}
    members = {rank: [str(rank) in key[0] if text else rank in of_rank for key, of_rank in groups.items()]
               for rank in range(len(traces))}
    slow = [least[key] > slower * fastest[key] for key in groups]
    blamed = [rank for rank, inside in members.items() if any(slow) and (
        inside == slow if others else all(is_in for is_in, is_slow in zip(inside, slow) if is_slow))]
    return {"rank": blamed[0] if len(blamed) == 1 else None, "why": "network"}


def numpys_numbers(traces):
    found = by_intersection(traces)
    return found if found["rank"] is None else {**found, "rank": np.int64(found["rank"])}


NAMING_ROUTES = [by_intersection, numpys_numbers]


# -- wrong ones -------------------------------------------------------------------------------------


def nobody(traces):
    return {"rank": None, "why": None}


def slowest_kernels(traces):
    times = [sum(s.duration_ms for s in t.spans if s.category == "kernel" and not s.name.startswith("nccl")) for t in traces]
    return {"rank": times.index(max(times)), "why": "compute"}


def longest_wait_is_late(traces):
    times = [sum(s.duration_ms for s in t.spans if s.category == "kernel" and s.name.startswith("nccl")) for t in traces]
    return {"rank": times.index(max(times)), "why": "compute"}


def last_to_end(traces):
    ends = [max(s.end_us for s in t.spans) for t in traces]
    return {"rank": ends.index(max(ends)), "why": "compute"}


def by_steps(traces):
    lengths = [sum(s.duration_ms for s in t.spans if s.name.startswith("ProfilerStep")) for t in traces]
    return {"rank": lengths.index(max(lengths)), "why": "compute"}


def a_tuple(traces):
    return 0, "compute"


def another_word(traces):
    return {"rank": 0, "why": "slow kernels"}


def no_such_rank(traces):
    return {"rank": len(traces), "why": "compute"}


def never_the_network(traces):
    found = by_intersection(traces)
    return found if found["why"] != "network" else nobody(traces)


def always_compute(traces):
    found = by_intersection(traces)
    return {**found, "why": "compute" if found["why"] == "input" else found["why"]}


def all_of_nccls_time(traces):
    return mistakes.find_straggler(traces, counted="nccl")


NAMING_WRONG = [
    (lambda traces: mistakes.find_straggler(traces, even=0.1), "for a twentieth of the time or more"),
    (lambda traces: mistakes.find_straggler(traces, network=0.1), "from a fifth of the time on"),
    (lambda traces: mistakes.find_straggler(traces, network=0.5), "a fifth of the time or more"),
    (lambda traces: by_intersection(traces, slower=1.0), "1.3 times"),
    (lambda traces: by_intersection(traces, slower=3.0), "1.3 times"),
    (lambda traces: by_intersection(traces, middle=np.mean), "by the median of equal collectives"),
    (lambda traces: by_intersection(traces, middle=np.min), "equal collectives"),
    (lambda traces: by_intersection(traces, elements=False), "no rank is in every slow group and in no other"),
    (lambda traces: by_intersection(traces, others=False), "no rank is in every slow group and in no other"),
    (lambda traces: by_intersection(traces, text=True), "numbers"),
    (lambda traces: mistakes.find_straggler(traces, timed="steps"), "ends with the last work on the GPU"),
    (all_of_nccls_time, "You count all of NCCL's time"),
    (nobody, "waits least itself"),
    (slowest_kernels, "the most work"),
    (longest_wait_is_late, "waits"),
    (last_to_end, "rank"),
    (by_steps, "rank"),
    (a_tuple, "not a dict with 'rank' and 'why'"),
    (another_word, "not 'compute', 'input', 'network' or None"),
    (no_such_rank, "a number from 0 to"),
    (never_the_network, "network"),
    (always_compute, "The rank is right, but the reason is not"),
]
