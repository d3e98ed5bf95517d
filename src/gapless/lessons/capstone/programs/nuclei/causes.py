"""What is slow in the program, in the order in which the model solution removes it."""

from ...cause import BUS, INPUT, KERNELS, MEMORY, WAIT, WORK, Cause, Change
from ..common import AVERAGES, CLIPPING, LOSS_READ, OPTIMIZER, SYNCHRONISATION, ZEROS

CAUSES = (
    Cause(
        "anomaly mode", (WAIT, WORK), "06_launch_overhead",
        "Anomaly mode looks for NaN after each operator of the backward pass, and reads the answer.",
        (("train.py", "set_detect_anomaly(True)"),),
        (Change("train.py", """    with torch.autograd.set_detect_anomaly(True):
        parts = loss_of(network(pictures), *wanted)
        loss = sum(parts)
        loss.backward()
""", """    parts = loss_of(network(pictures), *wanted)
    loss = sum(parts)
    loss.backward()
"""),), waits_in_backward=True),
    Cause(
        "no workers", (INPUT,), "04_data_loading",
        "The process that launches the device's work decodes the pictures one after another, and the device waits for "
        "them.",
        (("data.py", "return DataLoader("), ("data.py", "decode(self.pictures[index]")),
        (Change("data.py", "batch_size=config.batch_size, sampler=order)",
                "batch_size=config.batch_size, sampler=order,\n"
                "                      num_workers=2 if training else 0, persistent_workers=training,\n"
                "                      pin_memory=device.type != \"cpu\")"),)),
    Cause(
        "floats over the bus", (BUS, INPUT), "04_data_loading",
        "A picture has a byte for each value. As float32 it is four times as large, and the host makes the floats.",
        (("data.py", "picture.float() / 255"), ("data.py", "each.to(device) for each in batch")),
        (Change("data.py", """        picture = (picture.float() / 255 - self.mean) / self.std
""", ""),
         Change("data.py", """        self.mean = torch.tensor(config.mean).view(3, 1, 1)
        self.std = torch.tensor(config.std).view(3, 1, 1)
""", ""),
         Change("data.py", """    return pictures, boxes.float(), kinds.long(), masks
""", """    scale = [1 / (255 * each) for each in config.std]
    pictures = torch.stack([pictures[:, number] * scale[number] - config.mean[number] / config.std[number]
                            for number in range(3)], dim=1)
    return pictures, boxes.float(), kinds.long(), masks
"""))),
    Cause(
        "a plane of floats for each mask", (BUS, INPUT), "04_data_loading",
        "All masks of a picture are in one byte a pixel. The host makes a plane of floats for each, and all cross the bus.",
        (("data.py", "masks = torch.stack("),),
        (Change("data.py", """        masks = torch.stack([(numbers == number + 1).float() for number in range(len(kinds))])
        return picture, boxes, kinds, masks
""", """        return picture, boxes, kinds, numbers
"""),
         Change("data.py", "pictures, boxes, kinds, masks = (each.to(device) for each in batch)",
                "pictures, boxes, kinds, numbers = (each.to(device) for each in batch)"),
         Change("data.py", """    return pictures, boxes.float(), kinds.long(), masks
""", """    masks = numbers.unsqueeze(1) == torch.arange(1, kinds.shape[1] + 1, device=device).view(-1, 1, 1)
    return pictures, boxes.float(), kinds.long(), masks.float()
"""))),
    Cause(
        "copies that wait", (WAIT,), "04_data_loading",
        "A copy waits unless its memory is pinned and `non_blocking` is set.",
        (("data.py", "each.to(device) for each in batch"),),
        (Change("data.py", "each.to(device) for", "each.to(device, non_blocking=True) for"),)),
    Cause(
        "mish by hand", (KERNELS, MEMORY), "07_kernel_fusion",
        "Five kernels do the work of one, and the backward pass keeps what each of them needs.",
        (("model.py", "torch.tanh("),),
        (Change("model.py", "x * torch.tanh(torch.log(1 + torch.exp(x)))", "nn.functional.mish(x)"),)),
    Cause(
        "biases before norms", (WORK,), "05_convolutions",
        "A norm subtracts the mean, and the bias with it. The bias's gradient is a sum over all pixels.",
        (("model.py", "self.conv1 = "), ("model.py", "self.conv2 = ")),
        (Change("model.py", "3, stride=2, padding=1)", "3, stride=2, padding=1, bias=False)"),
         Change("model.py", "after, 3, padding=1)", "after, 3, padding=1, bias=False)"))),
    Cause(
        "anchors made on the host", (WAIT, BUS), "02_masked_loss",
        "The host makes a list of all anchors in each forward pass and copies it, and the copy waits.",
        (("model.py", "return torch.tensor(anchors, device=device)"),),
        (Change("model.py", """    anchors = []
    for y in range(height):
        for x in range(width):
            for size in config.sizes:
                left, top = (x + 0.5) * STRIDE - size / 2, (y + 0.5) * STRIDE - size / 2
                anchors.append([left, top, left + size, top + size])
    return torch.tensor(anchors, device=device)
""", """    y = (torch.arange(height, device=device) + 0.5).view(-1, 1, 1).expand(height, width, 1) * STRIDE
    x = (torch.arange(width, device=device) + 0.5).view(1, -1, 1).expand(height, width, 1) * STRIDE
    squares = [torch.cat([x - size / 2, y - size / 2, x + size / 2, y + size / 2], dim=2) for size in config.sizes]
    return torch.stack(squares, dim=2).view(-1, 4)
"""),)),
    Cause(
        "weights made for each picture", (WAIT, BUS), "02_masked_loss",
        "A tensor of Python numbers is made on the host and copied, and the copy waits.",
        (("losses.py", "weight = torch.tensor(self.config.class_weights"),),
        (Change("losses.py", """        self.config, self.device = config, device
""", """        self.config, self.device = config, device
        self.weight = torch.tensor(config.class_weights, device=device)
"""),
         Change("losses.py", """        weight = torch.tensor(self.config.class_weights, device=self.device)
""", ""),
         Change("losses.py", "nothing, weight=weight", "nothing, weight=self.weight"),
         Change("losses.py", "0), weight=weight", "0), weight=self.weight"))),
    Cause(
        "nuclei that are there, by a mask", (WAIT,), "02_masked_loss",
        "Only the device knows how many there are, so indexing with a mask waits for that number. Empty boxes overlap "
        "nothing.",
        (("losses.py", "boxes[there], kinds[there], masks[there]"),),
        (Change("losses.py", """        there = kinds > 0
        boxes, kinds, masks = boxes[there], kinds[there], masks[there]
        if len(boxes) == 0:
            nothing = torch.zeros(len(anchors), dtype=torch.int64, device=self.device)
            return F.cross_entropy(logits, nothing, weight=self.weight), moves.sum() * 0, (mixes.sum() + shapes.sum()) * 0
""", ""),)),
    Cause(
        "a look whether any is matched", (WAIT,), "00_two_clocks",
        "An `if` needs a Python bool, in the middle of the step, for each picture.",
        (("losses.py", "if (~matched).all()"),), ()),
    Cause(
        "matched anchors by a mask", (WAIT,), "02_masked_loss",
        "Only the device knows how many are matched, so indexing with a mask waits for that number.",
        (("losses.py", "which = which[matched]"), ("losses.py", "moves_to(anchors[matched]")), ()),
    Cause(
        "nucleus by nucleus", (KERNELS, WAIT), "07_kernel_fusion",
        "Each mask has its own index, which waits, its own product and its own loss, forward and backward.",
        (("losses.py", "[which == number] @ shapes"), ("losses.py", "F.avg_pool2d(mask.unsqueeze(0), FINE).flatten"),
         ("losses.py", "total = total + F.binary"), ("losses.py", "for number, mask in enumerate(masks)")), (),
        seen_at=(("losses.py", "[which == number] @ shapes"),)),
    Cause(
        "the loss picture by picture", (KERNELS,), "07_kernel_fusion",
        "Each picture has its own overlaps and losses, forward and backward. One more dimension computes them all at once.",
        (("losses.py", "pictures = [self.of_picture("), ("losses.py", "overlaps(anchors, boxes).max(dim=1)")),
        (Change("losses.py", """\
    def of_picture(self, anchors, logits, moves, mixes, shapes, boxes, kinds, masks):
        \"\"\"The parts of one picture's; boxes and masks are those of matched anchors, zero where none is.\"\"\"
        overlap, which = overlaps(anchors, boxes).max(dim=1)
        matched = overlap >= self.config.matched_from
        kind = F.cross_entropy(logits, torch.where(matched, kinds[which], 0), weight=self.weight)
        if (~matched).all():
            return kind, moves.sum() * 0, (mixes.sum() + shapes.sum()) * 0
        which = which[matched]
        box = F.smooth_l1_loss(moves[matched], moves_to(anchors[matched], boxes[which]))
        total = 0
        for number, mask in enumerate(masks):
            shown = mixes[matched][which == number] @ shapes.flatten(1)
            wanted = F.avg_pool2d(mask.unsqueeze(0), FINE).flatten(1).expand_as(shown)
            total = total + F.binary_cross_entropy_with_logits(shown, wanted, reduction="sum")
        return kind, box, total / (len(which) * shapes[0].numel())

""", ""),
         Change("losses.py", """        anchors, *others = predictions
        pictures = [self.of_picture(anchors, *picture) for picture in zip(*others, boxes, kinds, masks)]
        parts = [sum(part) / len(pictures) for part in zip(*pictures)]
""", """        anchors, logits, moves, mixes, shapes = predictions
        overlap, which = overlaps(anchors, boxes).max(dim=2)
        matched = overlap >= self.config.matched_from
        count = matched.sum(dim=1).clamp(min=1)
        wanted = torch.where(matched, kinds.gather(1, which), 0)
        kind = F.cross_entropy(logits.transpose(1, 2), wanted, weight=self.weight, reduction="none").sum(dim=1)
        kind = kind / self.weight[wanted].sum(dim=1)
        # An anchor that is not matched is its own box: of an empty one the logarithm would not be finite.
        targets = torch.where(matched.unsqueeze(2), boxes.gather(1, which.unsqueeze(2).expand(-1, -1, 4)), anchors)
        box = F.smooth_l1_loss(moves, moves_to(anchors, targets), reduction="none").mean(dim=2)
        box = (box * matched).sum(dim=1) / count
        fine = F.avg_pool2d(masks, FINE).flatten(2)
        fine = fine.gather(1, which.unsqueeze(2).expand(-1, -1, fine.shape[2]))
        mask = F.binary_cross_entropy_with_logits(mixes @ shapes.flatten(2), fine, reduction="none").mean(dim=2)
        mask = (mask * matched).sum(dim=1) / count
        parts = [part.mean() for part in (kind, box, mask)]
"""))),
    Cause(
        "a check of each loss", (WAIT,), "00_two_clocks",
        "An `if` needs a Python bool, in the middle of the step.",
        (("losses.py", "if torch.isnan(sum(parts))"),),
        (Change("losses.py", """        parts = [part.mean() for part in (kind, box, mask)]
        if torch.isnan(sum(parts)):
            raise FloatingPointError("the loss is not a number")
        return parts
""", """        return [part.mean() for part in (kind, box, mask)]
"""),)),
    Cause(
        "parts of the loss read in each step", (WAIT,), "03_metric_collection",
        "The host reads three numbers for each batch. Added up on the device, they can be read once an epoch.",
        (("metrics.py", "total + part.item()"),),
        (Change("metrics.py", "self.totals, self.count = [0, 0, 0], 0",
                "self.totals, self.count = torch.zeros(3, device=device), 0"),
         Change("metrics.py", "self.totals = [total + part.item() for total, part in zip(self.totals, parts)]",
                "self.totals += torch.stack(parts).detach()"),
         Change("metrics.py", "return [total / self.count for total in self.totals]",
                "return (self.totals / self.count).tolist()"))),
    Cause(
        "the best boxes one by one", (KERNELS, WAIT), "07_kernel_fusion",
        "For each box the host asks whether it is dropped, and waits for the answer. Each kept box is compared with all "
        "others separately.",
        (("metrics.py", "dropped = dropped | (overlaps("), ("metrics.py", "if not dropped[number]"),
         ("metrics.py", "for number in range(len(boxes))")),
        (Change("metrics.py", """\
    \"\"\"Of boxes K×4, the best first, which overlap no better one by more than ``limit``.\"\"\"
    kept, dropped = [], torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
    for number in range(len(boxes)):
        if not dropped[number]:
            kept.append(number)
            dropped = dropped | (overlaps(boxes[number:number + 1], boxes)[0] > limit)
    return kept
""", """\
    \"\"\"Of boxes B×K×4, the best first, which overlap no better one by more than ``limit``.\"\"\"
    close = (overlaps(boxes, boxes) > limit).triu(1)
    kept = torch.ones_like(close[:, 0])
    for number in range(boxes.shape[1] - 1):
        kept = kept & ~(kept[:, number:number + 1] & close[:, number])
    return kept
"""),
         Change("metrics.py", """        anchors, *others = predictions
        for picture in zip(*others, boxes, kinds, masks):
            self.update_picture(anchors, *picture)

    def update_picture(self, anchors, logits, moves, mixes, shapes, boxes, kinds, masks):
        scores, guesses = torch.softmax(logits, dim=1)[:, 1:].max(dim=1)
        scores, ranked = scores.topk(self.config.found)
        guesses, found = guesses[ranked] + 1, moved(anchors[ranked], moves[ranked])
        self.wanted += kinds.tolist()
        taken = []
        for number in best_alone(found, self.config.same_from):
            overlap = overlaps(found[number:number + 1], boxes)[0] * (kinds == guesses[number])
            which = overlap.argmax().item()
            hit = overlap[which].item() >= self.config.hit_from and which not in taken
            quality = 0.0
            if hit:
                taken.append(which)
                shown = torch.sigmoid((mixes[ranked[number]].view(-1, 1, 1) * shapes).sum(dim=0))
                mask = F.avg_pool2d(masks[which].unsqueeze(0), FINE)[0]
                quality = ((shown * mask).sum() / (shown + mask - shown * mask).sum()).item()
            self.rows.append((guesses[number].item(), scores[number].item(), hit, quality))
""", """        anchors, logits, moves, mixes, shapes = predictions
        scores, guesses = torch.softmax(logits, dim=2)[..., 1:].max(dim=2)
        scores, ranked = scores.topk(self.config.found)
        guesses = guesses.gather(1, ranked) + 1
        found = moved(anchors[ranked], moves.gather(1, ranked.unsqueeze(2).expand(-1, -1, 4)))
        kept = best_alone(found, self.config.same_from)
        overlap, which = (overlaps(found, boxes) * (kinds.unsqueeze(1) == guesses.unsqueeze(2))).max(dim=2)
        near = kept & (overlap >= self.config.hit_from)
        # What a better one has hit is taken.
        taken = ((which.unsqueeze(2) == which.unsqueeze(1)) & near.unsqueeze(1)).tril(-1).any(dim=2)
        mixes = mixes.gather(1, ranked.unsqueeze(2).expand(-1, -1, mixes.shape[2]))
        shown = torch.sigmoid(mixes @ shapes.flatten(2))
        fine = F.avg_pool2d(masks, FINE).flatten(2)
        both = shown * fine.gather(1, which.unsqueeze(2).expand(-1, -1, fine.shape[2]))
        either = shown + fine.gather(1, which.unsqueeze(2).expand(-1, -1, fine.shape[2])) - both
        self.rows.append(torch.stack([guesses, scores, near & ~taken, both.sum(dim=2) / either.sum(dim=2), kept], dim=2))
        self.wanted.append(kinds)
"""),
         Change("metrics.py", """        rows, wanted = sorted(self.rows, key=lambda row: -row[1]), self.wanted
""", """        rows = [row for row in torch.cat(self.rows).flatten(0, 1).tolist() if row[4]]
        rows, wanted = sorted(rows, key=lambda row: -row[1]), torch.cat(self.wanted).flatten().tolist()
""")), seen_at=(("metrics.py", "dropped = dropped | (overlaps("),)),
    Cause(
        "hits read box by box", (WAIT,), "03_metric_collection",
        "The host reads four numbers for each box. Kept on the device, they can all be read once an epoch.",
        (("metrics.py", "which = overlap.argmax().item()"), ("metrics.py", "hit = overlap[which].item()"),
         ("metrics.py", "self.rows.append((guesses[number].item()")), ()),
    Cause(
        "kinds read for each picture", (WAIT,), "03_metric_collection",
        "These numbers are needed only at the end of the epoch, all at once.",
        (("metrics.py", "self.wanted += kinds.tolist()"),), ()),
    OPTIMIZER,
    CLIPPING,
    AVERAGES,
    ZEROS,
    LOSS_READ,
    SYNCHRONISATION,
    Cause(
        "a graph that nobody goes back", (MEMORY,), "08_memory",
        "Without `no_grad` each layer keeps what a backward pass would need.",
        (("train.py", "def evaluate("), ("train.py", "network.eval()"),
         ("train.py", "outputs.append((network(pictures), wanted))")),
        (Change("train.py", "def evaluate(", "@torch.no_grad()\ndef evaluate("),)),
    Cause(
        "outputs kept until the end", (MEMORY,), "08_memory",
        "The network's outputs for all batches, and their masks, are in memory at once, but only some numbers of each "
        "box are needed.",
        (("train.py", "outputs = []"), ("train.py", "for predictions, wanted in outputs:"),
         ("train.py", "outputs.append((network(pictures), wanted))")),
        (Change("train.py", """    outputs = []
    for batch in loader:
        pictures, *wanted = to_device(batch, config, device)
        outputs.append((network(pictures), wanted))
    precision = Precision(config, device)
    for predictions, wanted in outputs:
        precision.update(predictions, *wanted)
""", """    precision = Precision(config, device)
    for batch in loader:
        pictures, *wanted = to_device(batch, config, device)
        precision.update(network(pictures), *wanted)
"""),)),
)
