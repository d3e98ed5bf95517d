"""What is slow in the program, in the order in which the model solution removes it."""

from ...cause import BUS, INPUT, KERNELS, MEMORY, WAIT, WORK, Cause, Change
from ..common import AVERAGES, CLIPPING, LOSS_READ, OPTIMIZER, SYNCHRONISATION, ZEROS

CAUSES = (
    Cause(
        "anomaly mode", (WAIT, WORK), "06_launch_overhead",
        "Anomaly mode looks for NaN after each operator of the backward pass, and reads the answer.",
        (("train.py", "set_detect_anomaly(True)"),),
        (Change("train.py", """    with torch.autograd.set_detect_anomaly(True):
        loss = loss_of(logits, following)
        loss.backward()
""", """    loss = loss_of(logits, following)
    loss.backward()
"""),), waits_in_backward=True),
    Cause(
        "no workers", (INPUT,), "04_data_loading",
        "The process that launches the device's work decodes the texts one after another, and the device waits for them.",
        (("data.py", "return DataLoader("), ("data.py", "decode(self.texts[index]")),
        (Change("data.py", "batch_size=config.batch_size, sampler=order)",
                "batch_size=config.batch_size, sampler=order,\n"
                "                      num_workers=2 if training else 0, persistent_workers=training,\n"
                "                      pin_memory=device.type != \"cpu\")"),)),
    Cause(
        "letters as rows of floats", (BUS, WORK), "04_data_loading",
        "A letter is a byte. As a row of zeros and a one it takes as many floats as there are letters, and the network "
        "multiplies by all those zeros.",
        (("data.py", "return F.one_hot(text[:-1], self.letters).float()"), ("data.py", "read.to(device), following"),
         ("data.py", "return F.one_hot(letters, config.letters).float()"), ("model.py", "x = read @ self.letters")),
        (Change("data.py", """        text = decode(self.texts[index], self.device).long()
        return F.one_hot(text[:-1], self.letters).float(), text[1:]
""", """        text = decode(self.texts[index], self.device)
        return text[:-1], text[1:]
"""),
         Change("data.py", "    return read, following\n", "    return as_read(read, config), following.long()\n"),
         Change("data.py", "return F.one_hot(letters, config.letters).float()", "return letters.long()"),
         Change("data.py", "import torch.nn.functional as F\n", ""),
         Change("model.py", "x = read @ self.letters", "x = nn.functional.embedding(read, self.letters)"))),
    Cause(
        "copies that wait", (WAIT,), "04_data_loading",
        "A copy waits unless its memory is pinned and `non_blocking` is set.",
        (("data.py", "read.to(device), following.to(device)"),),
        (Change("data.py", "read.to(device), following.to(device)",
                "read.to(device, non_blocking=True), following.to(device, non_blocking=True)"),)),
    Cause(
        "places made on the host", (WAIT, BUS), "02_masked_loss",
        "The host makes the places and copies them, in each forward pass, and the copy waits.",
        (("model.py", "places = torch.arange(read.shape[1])"),),
        (Change("model.py", "torch.arange(read.shape[1]).float().to(self.rates.device)",
                "torch.arange(read.shape[1], dtype=torch.float32, device=self.rates.device)"),)),
    Cause(
        "a mask made on the host", (WAIT, BUS), "02_masked_loss",
        "The host makes the mask and copies it, in each layer of each forward pass, and the copy waits.",
        (("model.py", ".triu(1).to(x.device)"),),
        (Change("model.py", "torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1).to(x.device)",
                "torch.full((x.shape[1], x.shape[1]), -math.inf, device=x.device).triu(1)"),)),
    Cause(
        "attention head by head", (KERNELS,), "07_kernel_fusion",
        "Each head has its own products, softmax and sums, forward and backward. One operator does it for all.",
        (("model.py", "scores = queries[..., part]"), ("model.py", "found.append(torch.softmax(scores"),
         ("model.py", "for head in range(self.heads)")),
        (Change("model.py", """        later = torch.full((x.shape[1], x.shape[1]), -math.inf, device=x.device).triu(1)
        queries, keys, values = self.mix(x).chunk(3, dim=-1)
        found = []
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            scores = queries[..., part] @ keys[..., part].transpose(1, 2) / math.sqrt(size) + later
            found.append(torch.softmax(scores, dim=-1) @ values[..., part])
        return self.join(torch.cat(found, dim=-1))
""", """        parts = (part.unflatten(-1, (self.heads, size)).transpose(1, 2) for part in self.mix(x).chunk(3, dim=-1))
        found = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.join(found.transpose(1, 2).flatten(2))
"""),), seen_at=(("model.py", "scores = queries[..., part]"),)),
    Cause(
        "a norm by hand", (KERNELS, MEMORY), "07_kernel_fusion",
        "It takes ten kernels, and keeps as many tensors, where one kernel would do.",
        (("model.py", "torch.sqrt(variance + 1e-5)"), ("model.py", "variance = ((x - mean) ** 2)"),
         ("model.py", "mean = x.mean(dim=-1, keepdim=True)")),
        (Change("model.py", """        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * self.scale + self.shift
""", """        return nn.functional.layer_norm(x, x.shape[-1:], self.scale, self.shift, 1e-5)
"""),)),
    Cause(
        "an activation by hand", (KERNELS, MEMORY), "07_kernel_fusion",
        "Nine kernels do the work of one, and the backward pass keeps what each of them needs.",
        (("model.py", "return 0.5 * x"),),
        (Change("model.py", "0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))",
                "nn.functional.gelu(x, approximate=\"tanh\")"),)),
    Cause(
        "a look whether there is anything", (WAIT,), "02_masked_loss",
        "An `if` needs a Python bool, in the middle of the step.",
        (("losses.py", "if kept.sum() == 0"),),
        (Change("losses.py", """    if kept.sum() == 0:
        return logits.sum() * 0
""", ""),)),
    Cause(
        "padding left out by a mask", (WAIT,), "02_masked_loss",
        "Only the device knows how many letters are kept, so indexing with a mask waits for that number.",
        (("losses.py", "logits[kept], following[kept]"),),
        (Change("losses.py", """    loss = F.cross_entropy(logits[kept], following[kept])
""", """    total = F.cross_entropy(logits.flatten(0, 1), following.flatten(), ignore_index=PADDING, reduction="sum")
    loss = total / kept.sum().clamp(min=1)
"""),)),
    Cause(
        "a check of each loss", (WAIT,), "00_two_clocks",
        "An `if` needs a Python bool, in the middle of the step.",
        (("losses.py", "if torch.isnan(loss)"),),
        (Change("losses.py", """    if torch.isnan(loss):
        raise FloatingPointError("the loss is not a number")
""", ""),
         Change("losses.py", "import torch\nimport", "import"))),
    Cause(
        "counts read for each batch", (WAIT,), "03_metric_collection",
        "The host reads three numbers for each batch, each after an index that waits. Counted on the device, they can be "
        "read once an epoch.",
        (("metrics.py", "self.right +="), ("metrics.py", "self.high +="), ("metrics.py", "self.count +=")),
        (Change("metrics.py", """        self.right, self.count, self.high = 0, 0, 0
""", """        self.counts = torch.zeros(3, dtype=torch.int64, device=device)
"""),
         Change("metrics.py", """        self.right += (logits.argmax(dim=-1)[kept] == following[kept]).sum().item()
        self.high += (logits.topk(3).indices == following.unsqueeze(-1))[kept].any(dim=-1).sum().item()
        self.count += kept.sum().item()
""", """        right = (logits.argmax(dim=-1) == following) & kept
        high = (logits.topk(3).indices == following.unsqueeze(-1)).any(dim=-1) & kept
        self.counts += torch.stack([right, high, kept]).sum((1, 2))
"""),
         Change("metrics.py", """\
        return {"accuracy": self.right / max(1, self.count), "among_three": self.high / max(1, self.count)}
""", """        right, high, count = self.counts.tolist()
        return {"accuracy": right / max(1, count), "among_three": high / max(1, count)}
"""),
         Change("metrics.py", "class Scores:", "import torch\n\n\nclass Scores:"))),
    OPTIMIZER,
    CLIPPING,
    AVERAGES,
    ZEROS,
    LOSS_READ,
    SYNCHRONISATION,
    Cause(
        "texts made one by one", (KERNELS,), "07_kernel_fusion",
        "Each prompt goes through the network alone, letter by letter. Each takes as many launches as all of them "
        "together would.",
        (("train.py", "for prompt in prompts"), ("train.py", "network(as_read(text, config))[0, -1]"),
         ("model.py", "return self.head(self.norm(self.blocks(x)))")),
        (Change("train.py", """    texts = []
    for prompt in prompts:
        text = prompt.long().unsqueeze(0).to(device)
        made = []
        for _ in range(config.new_letters):
            letter = network(as_read(text, config))[0, -1].argmax()
            made.append(letter.item())
            text = torch.cat([text, letter.view(1, 1)], dim=1)
            if made[-1] == END:
                break
        texts.append(made + [PADDING] * (config.new_letters - len(made)))
    return texts
""", """    texts = prompts.to(device).long()
    for _ in range(config.new_letters):
        letters = network(as_read(texts, config))[:, -1].argmax(dim=-1)
        ended = (texts[:, prompts.shape[1]:] == END).any(dim=1)
        texts = torch.cat([texts, torch.where(ended, PADDING, letters).unsqueeze(1)], dim=1)
    return texts[:, prompts.shape[1]:].tolist()
"""),), seen_at=(("model.py", "return self.head(self.norm(self.blocks(x)))"),)),
    Cause(
        "each letter read", (WAIT,), "00_two_clocks",
        "Only the host needs the letter as a number, and only when the text is done.",
        (("train.py", "made.append(letter.item())"),), ()),
    Cause(
        "a graph that nobody goes back", (MEMORY,), "08_memory",
        "Without `no_grad` each layer keeps what a backward pass would need.",
        (("train.py", "def evaluate("), ("train.py", "def generate("),
         ("train.py", "outputs.append((network(read), following))")),
        (Change("train.py", "def evaluate(", "@torch.no_grad()\ndef evaluate("),
         Change("train.py", "def generate(", "@torch.no_grad()\ndef generate("))),
    Cause(
        "outputs kept until the end", (MEMORY,), "08_memory",
        "The logits of all batches are in memory at once, but only the counts of each batch are needed.",
        (("train.py", "outputs = []"), ("train.py", "for logits, following in outputs:"),
         ("train.py", "outputs.append((network(read), following))")),
        (Change("train.py", """    outputs = []
    for batch in loader:
        read, following = to_device(batch, config, device)
        outputs.append((network(read), following))
    scores = Scores(config, device)
    for logits, following in outputs:
        scores.update(logits, following)
""", """    scores = Scores(config, device)
    for batch in loader:
        read, following = to_device(batch, config, device)
        scores.update(network(read), following)
"""),)),
)
