"""Lesson 06, a step as one launch: right answers by other routes, and wrong ones."""

import copy

import torch


def prepared(optimizer, device, capturable=True, rate=True, groups=None):
    """``groups``: how many have the learning rate as a tensor, None for all."""
    for group in optimizer.param_groups:
        group["capturable"] = capturable
    for group in optimizer.param_groups[:groups if rate else 0]:
        group["lr"] = torch.as_tensor(group["lr"], device=device)


def plain_step(model, optimizer, loss_function, loss_of=lambda loss: loss.detach(), zero=True):
    def step(x, y):
        if zero:
            optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        return loss_of(loss)

    return step


def a_graph_for_each_shape(model, optimizer, loss_function):
    device = next(model.parameters()).device
    backend = torch.get_device_module(device)
    prepared(optimizer, device)
    step, known, met = plain_step(model, optimizer, loss_function), {}, {}

    def run(x, y):
        shape = tuple(x.shape)
        met[shape] = met.get(shape, 0) + 1
        if met[shape] < 3 or not optimizer.state:
            return step(x, y)
        if shape not in known:
            graph, static_x, static_y = backend.CUDAGraph(), torch.zeros_like(x), torch.zeros_like(y)
            with backend.graph(graph):
                loss = step(static_x, static_y)
            known[shape] = graph, static_x, static_y, loss
        graph, static_x, static_y, loss = known[shape]
        static_x.copy_(x)
        static_y.copy_(y)
        graph.replay()
        return loss.clone()

    return run


def fused_after_one_step(model, optimizer, loss_function):
    device = next(model.parameters()).device
    backend = torch.get_device_module(device)
    prepared(optimizer, device)
    for group in optimizer.param_groups:
        group["fused"], group["foreach"] = True, False
    step, graphs = plain_step(model, optimizer, loss_function), []

    def run(x, y):
        if not optimizer.state or graphs and x.shape != graphs[0][1].shape:
            return step(x, y)
        if not graphs:
            graph, x0, y0 = backend.CUDAGraph(), x.clone(), y.clone()
            with backend.graph(graph):
                graphs.append((graph, x0, y0, step(x0, y0)))
        graph, x0, y0, loss = graphs[0]
        x0.copy_(x, non_blocking=True)
        y0.copy_(y, non_blocking=True)
        graph.replay()
        return loss.clone()

    return run


def warmed_up_and_put_back(model, optimizer, loss_function):
    """On a side stream, with the second batch, as PyTorch's examples do; then everything is put back in place."""
    device = next(model.parameters()).device
    backend = torch.get_device_module(device)
    prepared(optimizer, device)
    step, parts = plain_step(model, optimizer, loss_function), []

    def capture(x, y):
        x0, y0 = x.clone(), y.clone()
        held = [tensor.detach() for module in (optimizer.state.values(), [model.state_dict()]) for state in module
                for tensor in state.values()]
        before = [tensor.clone() for tensor in held]
        side = backend.Stream()
        side.wait_stream(backend.current_stream())
        with backend.stream(side):
            step(x0, y0)
        backend.current_stream().wait_stream(side)
        for tensor, value in zip(held, before):
            tensor.copy_(value)
        graph = backend.CUDAGraph()
        with backend.graph(graph):
            loss = step(x0, y0)
        return graph, x0, y0, loss

    def run(x, y):
        if not optimizer.state:
            return step(x, y)
        if not parts:
            parts.extend(capture(x, y))
        graph, x0, y0, loss = parts
        if x.shape != x0.shape:
            return step(x, y)
        x0.copy_(x)
        y0.copy_(y)
        graph.replay()
        return loss.clone()

    return run


def buffers_moved(model, optimizer, loss_function):
    """Warmed up on the first batch; only the weights and the optimizer's state are put back."""
    prepared(optimizer, next(model.parameters()).device)
    step, begun = plain_step(model, optimizer, loss_function), []

    def run(x, y):
        if not begun:
            weights = [parameter.detach().clone() for parameter in model.parameters()]
            begun.append(step(x, y))
            with torch.no_grad():
                for parameter, weight in zip(model.parameters(), weights):
                    parameter.copy_(weight)
            for state in optimizer.state.values():
                for tensor in state.values():
                    tensor.zero_()
        return step(x, y)

    return run


shared_graphs = {}  # by the shape of a batch


def a_cache_for_all_networks(model, optimizer, loss_function):
    device, calls = next(model.parameters()).device, []
    backend = torch.get_device_module(device)
    prepared(optimizer, device)
    step = plain_step(model, optimizer, loss_function)

    def run(x, y):
        calls.append(1)
        if len(calls) <= 3:
            return step(x, y)
        if x.shape not in shared_graphs:
            graph, x0, y0 = backend.CUDAGraph(), x.clone(), y.clone()
            with backend.graph(graph):
                shared_graphs[x.shape] = graph, x0, y0, step(x0, y0)
        graph, x0, y0, loss = shared_graphs[x.shape]
        x0.copy_(x)
        y0.copy_(y)
        graph.replay()
        return loss.clone()

    return run


def captured(warm=3, rate=True, capturable=True, cloned=True, renamed=False, zero=True, sized=True, replayed=True,
             loss_of=lambda loss: loss.detach(), anew=False, before=0, groups=None):
    """The solution, with one part in another way."""

    def capture_step(model, optimizer, loss_function):
        device = next(model.parameters()).device
        backend = torch.get_device_module(device)
        prepared(optimizer, device, capturable, rate, groups)
        first, step = (plain_step(model, optimizer, loss_function, zero=zero or with_zero) if loss_of is None else
                       plain_step(model, optimizer, loss_function, loss_of, zero or with_zero) for with_zero in (True, False))
        graph, static, calls = backend.CUDAGraph(), {}, [0]

        def run(x, y):
            calls[0] += 1
            if calls[0] <= warm or sized and static and x.shape != static["x"].shape:
                return first(x, y)
            if anew or not static:
                static.update(x=x.clone(), y=y.clone())
                for _ in range(before):
                    first(static["x"], static["y"])
                static["graph"] = backend.CUDAGraph() if anew else graph
                with backend.graph(static["graph"]):
                    static["loss"] = step(static["x"], static["y"])
                if not replayed:
                    return static["loss"].clone()
            if renamed:
                static["x"], static["y"] = x, y
            else:
                static["x"].copy_(x)
                static["y"].copy_(y)
            static["graph"].replay()
            return static["loss"].clone() if cloned else static["loss"]

        return run

    return capture_step


def a_network_of_its_own(model, optimizer, loss_function):
    own = copy.deepcopy(model)
    return captured()(own, torch.optim.Adam(own.parameters(), lr=optimizer.param_groups[0]["lr"]), loss_function)


def all_but_the_optimizer(model, optimizer, loss_function):
    backend, parts, calls = torch.get_device_module(next(model.parameters()).device), [], []

    def gradients(x, y):
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        return loss.detach()

    def run(x, y):
        calls.append(1)
        if len(calls) < 4 or parts and x.shape != parts[1].shape:
            loss = gradients(x, y)
        else:
            if not parts:
                graph, x0, y0 = backend.CUDAGraph(), x.clone(), y.clone()
                with backend.graph(graph):
                    parts.extend((graph, x0, y0, gradients(x0, y0)))
            graph, x0, y0, loss = parts
            x0.copy_(x)
            y0.copy_(y)
            graph.replay()
        optimizer.step()
        return loss.clone()

    return run


def rate_on_the_host(model, optimizer, loss_function):
    step = captured(rate=False)(model, optimizer, loss_function)
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    return step


def twice(model, optimizer, loss_function):
    step = captured()(model, optimizer, loss_function)
    return lambda x, y: [step(x, y), step(x, y)][1]


def synchronised(model, optimizer, loss_function):
    """Right, with a wait in each step."""
    step, backend = captured()(model, optimizer, loss_function), torch.get_device_module(next(model.parameters()).device)

    def run(x, y):
        loss = step(x, y)
        backend.synchronize()
        return loss

    return run


def every_loss_read(model, optimizer, loss_function):
    """The steps that warm up too."""
    step = captured()(model, optimizer, loss_function)
    return lambda x, y: step(x, y).item()


def without_dropout(model, optimizer, loss_function):
    return captured()(model.eval(), optimizer, loss_function)


def loss_only(model, optimizer, loss_function):
    return lambda x, y: loss_function(model(x), y).detach()


def backward_left_out(model, optimizer, loss_function):
    def step(x, y):
        loss = loss_function(model(x), y)
        optimizer.step()
        return loss.detach()

    return step


def on_the_default_stream(model, optimizer, loss_function):
    prepared(optimizer, next(model.parameters()).device)
    backend = torch.get_device_module(next(model.parameters()).device)
    step, calls = plain_step(model, optimizer, loss_function), []

    def run(x, y):
        calls.append(1)
        if len(calls) == 4:
            graph = backend.CUDAGraph()
            graph.capture_begin()
            step(x, y)
            graph.capture_end()
        return step(x, y)

    return run


CAPTURE_ROUTES = [a_graph_for_each_shape, fused_after_one_step, warmed_up_and_put_back]

CAPTURE_WRONG = [("capture_step", answer, says) for answer, says in (
    (captured(cloned=False), "Return a copy, `loss.clone()`"),
    (captured(renamed=True), "only gives the name to another tensor"),
    (captured(rate=False), "The learning rate does not change after the capture"),
    (captured(groups=1), "Only the first group's learning rate changes"),
    (captured(capturable=False), "where a graph cannot see them"),
    (captured(zero=False), "The gradients add up from replay to replay"),
    (captured(sized=False), "raised"),
    (captured(replayed=False), "The captured batch is lost"),
    (captured(warm=0), "sets them to zero again"),
    (captured(before=3), "warm-up steps train too"),
    (captured(loss_of=lambda loss: loss.item()), "asks for a number"),
    (captured(loss_of=lambda loss: torch.tensor(float(loss))), "asks for a number"),
    (a_network_of_its_own, "has to be in memory that the graph reads"),
    (all_but_the_optimizer, "The optimizer's step is not in the graph"),
    (rate_on_the_host, "The learning rate does not change after the capture"),
    (twice, "Each call takes one forward pass"),
    (without_dropout, "turns dropout off"),
    (loss_only, "losses[1]"),
    (backward_left_out, "losses[1]"),
    (on_the_default_stream, "has its own stream"),
    (a_cache_for_all_networks, "Two networks are trained one after the other"),
    (buffers_moved, "buffers of the model are not"),
    (lambda model, optimizer, loss_function: captured()(model, optimizer, torch.nn.functional.cross_entropy), "`loss_function` that you are given"),
    (lambda model, optimizer, loss_function: None, "is there a `return`?"),
    (lambda model, optimizer, loss_function: lambda x, y: None, "`step(x, y)` returned nothing"),
)]
