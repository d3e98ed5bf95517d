"""Wrong answers to lesson 01 as students write them, each with what its message has to say. None is made from the lesson's list
of mistakes: they were written first, and the list was held against them."""

import statistics

import torch

from gapless.lessons.profiler_tour.stage import line_of

STEP = "ProfilerStep#"


def K(t):
    return [s for s in t.spans if s.category == "kernel"]


def S(t):
    return [s for s in t.spans if s.category == "annotation" and s.name.startswith(STEP)]


def W(t):
    return [s for s in t.spans if s.category in ("kernel", "memcpy", "memset")]


STUDENTS = []


def new(name, says):
    def deco(f):
        STUDENTS.append((name, f, says))
        return f

    return deco


def merged(spans):
    out = []
    for s in spans:
        if out and s.start_us <= out[-1][1]:
            out[-1][1] = max(out[-1][1], s.end_us)
        else:
            out.append([s.start_us, s.end_us])
    return out


# -- utilisation
@new("gpu_utilization", "ends with the later of both")
def u_clip_to_host(t):
    ks = K(t)
    if not ks:
        return None
    b, e = S(t)[0].start_us, S(t)[-1].end_us
    return sum(max(0, min(y, e) - max(x, b)) for x, y in merged(ks)) / (e - b)


@new("gpu_utilization", "ended before the first step")
def u_early_counts(t):
    ks = K(t)
    if not ks:
        return None
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    return sum(y - max(x, b) for x, y in merged(ks)) / (e - b)


@new("gpu_utilization", "with the `#`")
def u_steps_by_in(t):
    ks = K(t)
    if not ks:
        return None
    st = [s for s in t.spans if "ProfilerStep" in s.name]
    b = st[0].start_us
    e = max(max(s.end_us for s in st), max(s.end_us for s in W(t)))
    return sum(max(0, y - max(x, b)) for x, y in merged(ks)) / (e - b)


@new("gpu_utilization", "mean of the steps' shares")
def u_mean_of_steps(t):
    ks = K(t)
    if not ks:
        return None
    out = []
    for s in S(t):
        out.append(sum(max(0, min(y, s.end_us) - max(x, s.start_us)) for x, y in merged(ks)) / (s.end_us - s.start_us))
    return sum(out) / len(out)


@new("gpu_utilization", "a single step")
def u_three_steps(t):
    ks = K(t)
    if not ks:
        return None
    st = S(t)
    b = st[0].start_us
    e = max(st[2].end_us, *(s.end_us for s in W(t)))
    return sum(max(0, y - max(x, b)) for x, y in merged(ks)) / (e - b)


@new("gpu_utilization", "no kernel: return None")
def u_no_guard(t):
    b = S(t)[0].start_us
    e = max([s.end_us for s in W(t) + S(t)])
    return sum(max(0, y - max(x, b)) for x, y in merged(K(t))) / (e - b)


@new("gpu_utilization", "Keep the furthest end")
def u_next_start(t):
    ks = K(t)
    if not ks:
        return None
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    busy = 0
    for a, c in zip(ks, ks[1:]):
        busy += min(a.end_us, c.start_us) - max(a.start_us, b)
    busy += ks[-1].end_us - ks[-1].start_us
    return busy / (e - b)


@new("gpu_utilization", "No kernel in this trace has such a value")
def u_guards_any_work(t):
    if not W(t):
        return None
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    return sum(max(0, y - max(x, b)) for x, y in merged(K(t))) / (e - b)


# -- sm
@new("sm_efficiency", "Weight by time")
def s_times_util(t):
    told = [s.args["blocks per SM"] for s in K(t) if "blocks per SM" in s.args]
    if not told:
        return None
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    return sum(min(x, 1) for x in told) / len(told) * sum(max(0, y - max(x, b)) for x, y in merged(K(t))) / (e - b)


@new("sm_efficiency", "At most 1 at *each moment*")
def s_uncapped_sweep_then_min(t):
    told = [s for s in K(t) if "blocks per SM" in s.args]
    if not told:
        return None
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    return min(1.0, sum(s.args["blocks per SM"] * (s.end_us - max(b, s.start_us)) for s in told) / (e - b))


@new("sm_efficiency", "the later of both")
def s_host_end(t):
    told = [s for s in K(t) if "blocks per SM" in s.args]
    if not told:
        return None
    b, e = S(t)[0].start_us, S(t)[-1].end_us
    cuts = sorted({min(max(x, b), e) for s in told for x in (s.start_us, s.end_us)})
    return sum(
        min(1, sum(s.args["blocks per SM"] for s in told if s.start_us <= left and s.end_us >= right_))
        * (right_ - left)
        for left, right_ in zip(cuts, cuts[1:])
    ) / (e - b)


@new("sm_efficiency", "`int` makes 0")
def s_int(t):
    told = [s for s in K(t) if s.args.get("blocks per SM")]
    if not told:
        return None
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    cuts = sorted({max(x, b) for s in told for x in (s.start_us, s.end_us)})
    return sum(
        min(1, sum(int(s.args["blocks per SM"]) for s in told if s.start_us <= left and s.end_us >= right_))
        * (right_ - left)
        for left, right_ in zip(cuts, cuts[1:])
    ) / (e - b)


@new("sm_efficiency", "return None")
def s_zero_silent(t):
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    told = K(t)
    cuts = sorted({max(x, b) for s in told for x in (s.start_us, s.end_us)})
    return sum(
        min(1, sum(s.args.get("blocks per SM", 0) for s in told if s.start_us <= left and s.end_us >= right_))
        * (right_ - left)
        for left, right_ in zip(cuts, cuts[1:])
    ) / (e - b)


@new("sm_efficiency", "their blocks per SM add up")
def s_divide_by_running(t):
    told = [s for s in K(t) if "blocks per SM" in s.args]
    if not told:
        return None
    b = S(t)[0].start_us
    e = max(s.end_us for s in W(t) + S(t))
    area = 0
    cuts = sorted({max(x, b) for s in told for x in (s.start_us, s.end_us)})
    for left, right_ in zip(cuts, cuts[1:]):
        run = [min(1, s.args["blocks per SM"]) for s in told if s.start_us <= left and s.end_us >= right_]
        if run:
            area += sum(run) / len(run) * (right_ - left)
    return area / (e - b)


# -- occupancy
@new("achieved_occupancy", "divided by the number of kernels")
def o_sum_over_n_time(t):
    told = [(s.args["est. achieved occupancy %"], s.duration_ms) for s in K(t) if "est. achieved occupancy %" in s.args]
    return sum(o * d for o, d in told) / len(told) / 100 if told else None


@new("achieved_occupancy", "That is the median")
def o_median(t):
    told = [s.args["est. achieved occupancy %"] for s in K(t) if "est. achieved occupancy %" in s.args]
    return statistics.median(told) / 100 if told else None


@new("achieved_occupancy", "a kernel with the value 0")
def o_get(t):
    told = [(s.args.get("est. achieved occupancy %"), s.end_us - s.start_us) for s in K(t)]
    told = [(o, d) for o, d in told if o]
    return sum(o * d for o, d in told) / sum(d for _, d in told) / 100 if told else None


@new("achieved_occupancy", "plain mean")
def o_names(t):
    by = {}
    for s in K(t):
        if "est. achieved occupancy %" in s.args:
            by.setdefault(s.name, []).append(s.args["est. achieved occupancy %"])
    m = [sum(v) / len(v) for v in by.values()]
    return sum(m) / len(m) / 100 if m else None


@new("achieved_occupancy", "return None")
def o_zero_if_none(t):
    told = [
        (s.args["est. achieved occupancy %"], s.end_us - s.start_us)
        for s in K(t)
        if "est. achieved occupancy %" in s.args
    ]
    w = sum(d for _, d in told) or 1
    return sum(o * d for o, d in told) / w / 100


@new("achieved_occupancy", "`or None`")
def o_or_none(t):
    told = [
        (s.args["est. achieved occupancy %"], s.end_us - s.start_us)
        for s in K(t)
        if "est. achieved occupancy %" in s.args
    ]
    if not told:
        return None
    return (sum(o * d for o, d in told) / sum(d for _, d in told) / 100) or None


@new("achieved_occupancy", "That is the largest")
def o_max(t):
    told = [s.args["est. achieved occupancy %"] for s in K(t) if "est. achieved occupancy %" in s.args]
    return max(told) / 100 if told else None


# -- batch
def fits(m, c):
    d = {}
    for b in c:
        try:
            d[b] = m(b)
        except torch.OutOfMemoryError:
            pass
    return d


@new("choose_batch_size", "*mean* throughput")
def b_mean(m, c):
    d = fits(m, c)
    sp = {b: b / x.step_ms for b, x in d.items()}
    mean = sum(sp.values()) / len(sp)
    return min(b for b in sp if sp[b] >= 0.95 * mean)


@new("choose_batch_size", "multiplied by the GPU utilisation")
def b_utimes(m, c):
    d = fits(m, c)
    sp = {b: b / x.step_ms * x.gpu_utilization for b, x in d.items()}
    return min(b for b in sp if sp[b] >= 0.95 * max(sp.values()))


@new("choose_batch_size", "Return one batch size")
def b_tuple(m, c):
    d = fits(m, c)
    sp = {b: b / x.step_ms for b, x in d.items()}
    return min((b, s) for b, s in sp.items() if s >= 0.95 * max(sp.values()))


@new("choose_batch_size", "went down from the largest")
def b_from_top(m, c):
    d = fits(m, c)
    sp = {b: b / x.step_ms for b, x in d.items()}
    best = max(sp.values())
    pick = max(sp)
    for b in sorted(sp, reverse=True):
        if sp[b] < 0.95 * best:
            break
        pick = b
    return pick


@new("choose_batch_size", "compare with the best of all")
def b_gain_5(m, c):
    last = None
    for b in sorted(c):
        try:
            s = b / m(b).step_ms
        except torch.OutOfMemoryError:
            break
        if last and s < last[1] * 1.05:
            return last[0]
        last = (b, s)
    return last[0]


@new("choose_batch_size", "throws away what is behind the point")
def b_int(m, c):
    d = fits(m, c)
    sp = {b: b // x.step_ms for b, x in d.items()}
    return min(b for b in sp if sp[b] >= 0.95 * max(sp.values()))


@new("choose_batch_size", "best *so far*")
def b_running_best(m, c):
    best = 0
    pick = None
    for b in c:
        try:
            s = b / m(b).step_ms
        except torch.OutOfMemoryError:
            continue
        if s > best / 0.95:
            best, pick = s, b
    return pick


# -- operators
def opsrows(t, k, around, work=None, key="device_self_us"):
    calls = {s.args.get("correlation"): s for s in t.spans if s.category == "runtime"}
    ops = [s for s in t.spans if s.category == "op"]
    rows = {o.name: {"name": o.name, "calls": 0, "device_self_us": 0.0, "device_total_us": 0.0} for o in ops}
    for o in ops:
        rows[o.name]["calls"] += 1
    for w in work or W(t):
        c = calls.get(w.args.get("correlation"))
        if c is None:
            continue
        a = around(ops, c)
        for o in a:
            rows[o.name]["device_total_us"] += w.end_us - w.start_us
        if a:
            rows[a[-1].name]["device_self_us"] += w.end_us - w.start_us
    return sorted(rows.values(), key=lambda r: -r[key])[:k]


def inside(ops, c):
    return [o for o in ops if o.thread == c.thread and o.start_us <= c.start_us < o.end_us]


@new("top_operators", "innermost operator around the call")
def t_first_found(t, k):
    return opsrows(t, k, lambda ops, c: inside(ops, c)[:1])


@new("top_operators", "*every* operator around the call")
def t_only_inner(t, k):
    return opsrows(t, k, lambda ops, c: inside(ops, c)[-1:])


@new("top_operators", "however deep")
def t_two_levels(t, k):
    return opsrows(t, k, lambda ops, c: inside(ops, c)[-2:])


@new("top_operators", "Return a list of dicts")
def t_tuples(t, k):
    return [tuple(r.values()) for r in opsrows(t, k, inside)]


@new("top_operators", "calls is missing")
def t_no_calls(t, k):
    return [{a: b for a, b in r.items() if a != "calls"} for r in opsrows(t, k, inside)]


@new("top_operators", "make one row for each *name*")
def t_per_call(t, k):
    calls = {s.args.get("correlation"): s for s in t.spans if s.category == "runtime"}
    ops = [s for s in t.spans if s.category == "op"]
    launched = [(c, w.end_us - w.start_us) for w in W(t) if (c := calls.get(w.args.get("correlation")))]
    rows = []
    for o in ops:
        around = [(c, us) for c, us in launched if c.thread == o.thread and o.start_us <= c.start_us < o.end_us]
        own = sum(us for c, us in around if inside(ops, c)[-1:] == [o])
        rows.append({"name": o.name, "calls": 1, "device_self_us": own, "device_total_us": sum(us for _, us in around)})
    return sorted(rows, key=lambda r: -r["device_self_us"])[:k]


@new("top_operators", "has a row too")
def t_launching_alone(t, k):
    return [r for r in opsrows(t, None, inside) if r["device_total_us"]][:k]


@new("top_operators", "cut before they were sorted")
def t_cut_first(t, k):
    first = list(dict.fromkeys(s.name for s in t.spans if s.category == "op"))[:k]
    return [r for r in opsrows(t, None, inside) if r["name"] in first]


@new("top_operators", "Only the main thread was looked at")
def t_main_only(t, k):
    main = S(t)[0].thread
    return opsrows(
        t,
        k,
        lambda ops, c: [
            o for o in ops if o.thread == main and c.thread == main and o.start_us <= c.start_us < o.end_us
        ],
    )


# -- memory
F = ("size_increase_bytes", "self_size_increase_bytes", "allocation_bytes", "self_allocation_bytes")


def mem(t, around=None, nb=None, keep=True, form=dict):
    ops = [s for s in t.spans if s.category == "op"]
    rows = {}
    for e in t.events:
        if e["name"] != "[memory]" or e["args"]["Device Type"] != 1:
            continue
        th = (str(e["pid"]), str(e["tid"]))
        b = e["args"]["Bytes"]
        a = [o for o in ops if o.thread == th and o.start_us <= e["ts"] < o.end_us]
        if around:
            a = around(a)
        for o in a:
            r = rows.setdefault(o.name, dict.fromkeys(F, 0))
            own = o is a[-1]
            r[F[0]] += b
            r[F[1]] += b * own
            r[F[2]] += max(b, 0)
            r[F[3]] += max(b, 0) * own
    return rows


@new("memory_by_operator", "innermost operator around the moment")
def m_reversed(t):
    return mem(t, lambda a: a[::-1])


@new("memory_by_operator", "Return a dict")
def m_list(t):
    return [{"name": n, **r} for n, r in mem(t).items()]


@new("memory_by_operator", "Bytes are whole numbers")
def m_float(t):
    return {n: {k: float(v) for k, v in r.items()} for n, r in mem(t).items()}


@new("memory_by_operator", "is missing")
def m_only_two(t):
    return {n: {k: r[k] for k in F[::2]} for n, r in mem(t).items()}


@new("memory_by_operator", "counts for the operators around it too")
def m_inner_only_total(t):
    return mem(t, lambda a: a[-1:])


@new("memory_by_operator", "Only the main thread")
def m_main(t):
    main = S(t)[0].thread
    return mem(t, lambda a: [o for o in a if o.thread == main])


@new("memory_by_operator", "minus what was freed")
def m_abs_total(t):
    return {n: {**r, F[0]: r[F[2]], F[1]: r[F[3]]} for n, r in mem(t).items()}


@new("memory_by_operator", "a dict of four numbers")
def m_tuple(t):
    return {n: tuple(r.values()) for n, r in mem(t).items()}


@new("memory_by_operator", "whatever its name")
def m_aten(t):
    return {n: r for n, r in mem(t).items() if n.startswith("aten::")}


@new("memory_by_operator", "overwrote the one before")
def m_max(t):
    ops = [s for s in t.spans if s.category == "op"]
    rows = {}
    for e in t.events:
        if e["name"] != "[memory]" or e["args"]["Device Type"] != 1:
            continue
        th = (str(e["pid"]), str(e["tid"]))
        b = e["args"]["Bytes"]
        a = [o for o in ops if o.thread == th and o.start_us <= e["ts"] < o.end_us]
        for o in a:
            rows[o.name] = {F[0]: b, F[1]: b * (o is a[-1]), F[2]: max(b, 0), F[3]: max(b, 0) * (o is a[-1])}
    return rows


# -- source
def src(t, kernel_name, pick, val=lambda k, c: k.end_us - k.start_us):
    calls = {s.args.get("correlation"): s for s in t.spans if s.category == "runtime"}
    out = {}
    fr = [s for s in t.spans if line_of(s)]
    main = S(t)[0].thread
    for k in K(t):
        c = calls.get(k.args.get("correlation"))
        if k.name != kernel_name or c is None:
            continue
        line = pick([f for f in fr if f.start_us <= c.start_us < f.end_us], c, main)
        if line:
            out[line_of(line)] = out.get(line_of(line), 0) + val(k, c)
    return out


def right(a, c, m):
    return ([f for f in a if f.thread == c.thread] or [f for f in a if f.thread == m])[-1]


@new("source_of", "a line of its own here")
def q_main_first(t, kernel_name):
    return src(
        t, kernel_name, lambda a, c, m: ([f for f in a if f.thread == m] or [f for f in a if f.thread == c.thread])[-1]
    )


@new("source_of", "not any other thread will do")
def q_any_last(t, kernel_name):
    return src(t, kernel_name, lambda a, c, m: ([f for f in a if f.thread == c.thread] or a)[-1])


@new("source_of", "Another thread may launch more")
def q_main_is_the_busiest(t, kernel_name):
    threads = [s.thread for s in t.spans if s.category == "runtime"]
    busiest = max(threads, key=threads.count)
    return src(
        t, kernel_name, lambda a, c, m: ([f for f in a if f.thread == c.thread] or [f for f in a if f.thread == busiest] or [None])[-1]
    )


@new("source_of", "from the launch to the kernel's start")
def q_latency(t, kernel_name):
    return src(t, kernel_name, right, lambda k, c: k.start_us - c.start_us)


@new("source_of", "Return a dict")
def q_list(t, kernel_name):
    return [[line, u] for line, u in src(t, kernel_name, right).items()]


@new("source_of", "to one number")
def q_lists(t, kernel_name):
    out = {}
    for line, u in src(t, kernel_name, right).items():
        out[line] = [u]
    return out


@new("source_of", "Only the line with the most time")
def q_top(t, kernel_name):
    d = src(t, kernel_name, right)
    line = max(d, key=d.get)
    return {line: d[line]}


@new("source_of", "`line_of(span)` gives")
def q_names(t, kernel_name):
    calls = {s.args.get("correlation"): s for s in t.spans if s.category == "runtime"}
    out = {}
    for k in K(t):
        c = calls.get(k.args.get("correlation"))
        if k.name != kernel_name or c is None:
            continue
        a = [f for f in t.spans if line_of(f) and f.start_us <= c.start_us < f.end_us]
        f = right(a, c, S(t)[0].thread)
        out[f.name] = out.get(f.name, 0) + k.end_us - k.start_us
    return out


@new("source_of", "That is the mean")
def q_mean(t, kernel_name):
    d = src(t, kernel_name, right)
    c = src(t, kernel_name, right, lambda k, c: 1)
    return {line: d[line] / c[line] for line in d}


@new("source_of", "from a thread without Python frames")
def q_skip_backward(t, kernel_name):
    return src(t, kernel_name, lambda a, c, m: ([f for f in a if f.thread == c.thread] or [None])[-1])


# -- idle
@new("why_idle", "A low GPU utilisation may have any")
def i_util(t):
    busy = sum(y - x for x, y in merged(K(t)))
    T = S(t)[-1].end_us - S(t)[0].start_us
    return "slow loader" if busy / T < 0.2 else "many small kernels"


@new("why_idle", "How long the label")
def i_lbl(t):
    lab = sum(s.end_us - s.start_us for s in t.spans if "DataLoader" in s.name)
    if lab > 0.5 * sum(s.end_us - s.start_us for s in S(t)):
        return "slow loader"
    f = sum(min(1, s.args["blocks per SM"]) * s.duration_ms for s in K(t)) / sum(s.duration_ms for s in K(t))
    return "small batch" if f < 0.5 else "many small kernels"


@new("why_idle", "spelt like this")
def i_spelt(t):
    return "Slow loader"


@new("why_idle", "spelt like this")
def i_underscore(t):
    return "small_batch"


@new("why_idle", "by the occupancy")
def i_occ(t):
    n = [s.start_us for s in t.spans if s.category == "runtime" and "Launch" in s.name]
    if max(b - a for a, b in zip(n, n[1:])) > 0.4 * (S(t)[-1].end_us - S(t)[-1].start_us):
        return "slow loader"
    o = sum(s.args["est. achieved occupancy %"] * s.duration_ms for s in K(t)) / sum(s.duration_ms for s in K(t))
    return "small batch" if o < 50 else "many small kernels"


@new("why_idle", "by the number of kernels")
def i_count(t):
    per = len(K(t)) / len(S(t))
    return "many small kernels" if per > 40 else "small batch" if per > 20 else "slow loader"


@new("why_idle", "only operators with a launch count")
def i_hostops(t):
    ops = sum(s.end_us - s.start_us for s in t.spans if s.category == "op")
    T = S(t)[-1].end_us - S(t)[0].start_us
    if ops < 0.5 * T:
        return "slow loader"
    f = sum(min(1, s.args["blocks per SM"]) * s.duration_ms for s in K(t)) / sum(s.duration_ms for s in K(t))
    return "small batch" if f < 0.5 else "many small kernels"


@new("why_idle", "time in runtime calls")
def i_runtime(t):
    r = sum(s.end_us - s.start_us for s in t.spans if s.category == "runtime")
    T = S(t)[-1].end_us - S(t)[0].start_us
    if r < 0.5 * T:
        return "slow loader"
    f = sum(min(1, s.args["blocks per SM"]) * s.duration_ms for s in K(t)) / sum(s.duration_ms for s in K(t))
    return "small batch" if f < 0.5 else "many small kernels"


@new("why_idle", "is there a `return`")
def i_noreturn(t):
    pass


# -- what is the same twice, or one of several
@new("source_of", "a dict by `start_us`")
def q_by_start(t, kernel_name):
    kept = {k.start_us: id(k) for k in K(t) if k.name == kernel_name}
    return src(t, kernel_name, right, lambda k, c: (k.end_us - k.start_us) * (kept[k.start_us] == id(k)))


@new("source_of", "The latest start does not tell them apart")
def q_latest(t, kernel_name):
    def latest(a, c, m):
        return max([f for f in a if f.thread == c.thread] or [f for f in a if f.thread == m], key=lambda f: f.start_us)

    return src(t, kernel_name, latest)


@new("memory_by_operator", "at the same moment")
def m_by_moment(t):
    kept = {e["ts"]: e for e in t.events if e["name"] == "[memory]"}
    return mem(type(t)([*(e for e in t.events if e["name"] != "[memory]"), *kept.values()]))


@new("why_idle", "judged by itself")
def i_first_step(t):
    step = S(t)[0]
    calls = [s for s in t.spans if s.category == "runtime" and "Launch" in s.name]
    ops = [o for o in t.spans if o.category == "op" and step.start_us <= o.start_us < step.end_us
           and any(c.thread == o.thread and o.start_us <= c.start_us < o.end_us for c in calls)]
    if sum(y - x for x, y in merged(ops)) < 0.5 * (step.end_us - step.start_us):
        return "slow loader"
    f = sum(min(1, s.args["blocks per SM"]) * s.duration_ms for s in K(t)) / sum(s.duration_ms for s in K(t))
    return "small batch" if f < 0.5 else "many small kernels"


@new("why_idle", "Every kernel counts, by its duration")
def i_longest_kernel(t):
    longest = max(K(t), key=lambda k: k.duration_ms)
    calls = [s.start_us for s in t.spans if s.category == "runtime" and "Launch" in s.name]
    if max(b - a for a, b in zip([S(t)[0].start_us, *calls], calls)) > 0.4 * (S(t)[-1].end_us - S(t)[-1].start_us):
        return "slow loader"
    return "small batch" if longest.args["blocks per SM"] < 0.5 else "many small kernels"


# -- found by learners who were not told of the checks
def launching_share(t, is_launch=lambda name: "Launch" in name, is_own=lambda op, step: True, of_all=False):
    steps, calls, busy, share = S(t), {}, [], 0.0
    for s in t.spans:
        if s.category == "runtime" and is_launch(s.name):
            calls.setdefault(s.thread, []).append(s.start_us)
    for op in t.spans:
        if op.category == "op" and is_own(op, steps[0]) and any(op.start_us <= at < op.end_us for at in calls.get(op.thread, [])):
            busy.append((op.start_us, op.end_us))
    if of_all:
        busy = [(min(inside), max(inside)) for step in steps
                if (inside := [at for own in calls.values() for at in own if step.start_us <= at < step.end_us])]
    reached = 0.0
    for begin, end in sorted(busy):
        share += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return share / (steps[-1].end_us - steps[0].start_us)


def idle_by_share(**how):
    def why_idle(t):
        told = [(min(1.0, s.args["blocks per SM"]), s.end_us - s.start_us) for s in K(t) if "blocks per SM" in s.args]
        if launching_share(t, **how) < 0.5:
            return "slow loader"
        return "small batch" if sum(a * b for a, b in told) < 0.5 * sum(b for _, b in told) else "many small kernels"

    return why_idle


STUDENTS += [("why_idle", idle_by_share(is_launch=lambda name: name.startswith("cudaLaunch")), "look for `Launch`"),
             ("why_idle", idle_by_share(is_own=lambda op, step: op.thread == step.thread), "second thread"),
             ("why_idle", idle_by_share(of_all=True), "before the slow loader")]


def by_threads(find_main, others=False):
    def source_of(t, kernel_name):
        main, out, calls = find_main(t), {}, {s.args["correlation"]: s for s in t.spans if s.category == "runtime"}
        for k in K(t):
            call = calls.get(k.args.get("correlation"))
            if k.name == kernel_name and call is not None:
                around = [s for s in t.spans if s.category == "python" and line_of(s) and s.start_us <= call.start_us < s.end_us]
                chosen = ([s for s in around if s.thread == call.thread] or [s for s in around if s.thread == main]
                          or around * others)
                for s in chosen[-1:]:
                    out[line_of(s)] = out.get(line_of(s), 0) + k.end_us - k.start_us
        return out

    return source_of


STUDENTS += [("source_of", by_threads(lambda t: [s for s in t.spans if s.name.startswith(STEP)][-1].thread), "the thread that has the `ProfilerStep#` blocks"),
             ("source_of", by_threads(lambda t: [s for s in t.spans if s.category == "annotation"][-1].thread), "the thread that has the `ProfilerStep#` blocks"),
             ("source_of", by_threads(lambda t: next(s.thread for s in t.spans if s.category == "runtime")), "the thread that has the `ProfilerStep#` blocks"),
             ("source_of", by_threads(lambda t: S(t)[0].thread, others=True), "not any other thread will do")]
