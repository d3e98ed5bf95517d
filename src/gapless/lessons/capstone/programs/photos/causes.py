"""What is slow in the program, in the order in which the model solution removes it."""

from ...cause import BUS, INPUT, KERNELS, MEMORY, WAIT, WORK, Cause, Change
from ..common import AVERAGES, CLIPPING, LOSS_READ, OPTIMIZER, SYNCHRONISATION, ZEROS

CAUSES = (
    Cause(
        "anomaly mode", (WAIT, WORK), "06_launch_overhead",
        "Anomaly mode looks for NaN after each operator of the backward pass, and reads the answer.",
        (("train.py", "set_detect_anomaly(True)"),),
        (Change("train.py", """    with torch.autograd.set_detect_anomaly(True):
        logits = network(photos)
        loss = loss_of(logits, masks)
        loss.backward()
""", """    logits = network(photos)
    loss = loss_of(logits, masks)
    loss.backward()
"""),), waits_in_backward=True),
    Cause(
        "no workers", (INPUT,), "04_data_loading",
        "The process that launches the device's work decodes the photos one after another, and the device waits for them.",
        (("data.py", "return DataLoader("), ("data.py", "decode(self.photos[index]")),
        (Change("data.py", "batch_size=config.batch_size, sampler=order)",
                "batch_size=config.batch_size, sampler=order,\n"
                "                      num_workers=2 if training else 0, persistent_workers=training,\n"
                "                      pin_memory=device.type != \"cpu\")"),)),
    Cause(
        "floats over the bus", (BUS, INPUT), "04_data_loading",
        "A photo has a byte for each value. As float32 it is four times as large, and the host makes the floats.",
        (("data.py", "photo.float() / 255"), ("data.py", "photos.to(device), masks.to(device)")),
        (Change("data.py", """        photo = (photo.float() / 255 - self.mean) / self.std
        return photo, mask.long()
""", """        return photo, mask
"""),
         Change("data.py", """        self.mean = torch.tensor(config.mean).view(3, 1, 1)
        self.std = torch.tensor(config.std).view(3, 1, 1)
""", ""),
         Change("data.py", """    photos, masks = photos.to(device), masks.to(device)
    return photos, masks
""", """    photos, masks = photos.to(device), masks.to(device)
    scale = [1 / (255 * each) for each in config.std]
    photos = torch.stack([photos[:, number] * scale[number] - config.mean[number] / config.std[number]
                          for number in range(3)], dim=1)
    return photos, masks.long()
"""))),
    Cause(
        "masks as int64", (BUS,), "04_data_loading",
        "A label fits into a byte. As int64 it is eight times as large.",
        (("data.py", "return photo, mask.long()"),), ()),
    Cause(
        "copies that wait", (WAIT,), "04_data_loading",
        "A copy waits unless its memory is pinned and `non_blocking` is set.",
        (("data.py", "photos.to(device), masks.to(device)"),),
        (Change("data.py", "photos.to(device), masks.to(device)",
                "photos.to(device, non_blocking=True), masks.to(device, non_blocking=True)"),)),
    Cause(
        "swish by hand", (KERNELS, MEMORY), "07_kernel_fusion",
        "Six kernels do the work of one, and the backward pass keeps what each of them needs.",
        (("model.py", "torch.exp(-x)"),),
        (Change("model.py", "x * (1 / (1 + torch.exp(-x)))", "nn.functional.silu(x)"),)),
    Cause(
        "biases before norms", (WORK,), "05_convolutions",
        "A norm subtracts the mean, and the bias with it. The bias's gradient is a sum over all pixels.",
        (("model.py", "self.conv1 = "), ("model.py", "self.conv2 = ")),
        (Change("model.py", "3, stride=stride, padding=1)", "3, stride=stride, padding=1, bias=False)"),
         Change("model.py", "after, 3, padding=1)", "after, 3, padding=1, bias=False)"))),
    Cause(
        "enlarged in two steps", (KERNELS,), "07_kernel_fusion",
        "Each `repeat_interleave` makes an index and gathers with it. Its backward pass adds up with the same index.",
        (("model.py", "repeat_interleave(2, dim=2)"),),
        (Change("model.py", "x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)",
                "nn.functional.interpolate(x, scale_factor=2, mode=\"nearest\")"),)),
    Cause(
        "unique", (WAIT,), "02_masked_loss",
        "Only the device knows how many labels there are. The host waits for that number, and then reads one.",
        (("losses.py", "torch.unique(masks)"),),
        (Change("losses.py", """        labels = torch.unique(masks)
        if len(labels) == 1 and labels[0] == VOID:
            return logits.sum() * 0
""", ""),)),
    Cause(
        "weights made in each step", (WAIT, BUS), "02_masked_loss",
        "A tensor of Python numbers is made on the host and copied, and the copy waits.",
        (("losses.py", "torch.tensor(self.config.class_weights"),),
        (Change("losses.py", """        self.config, self.device = config, device
""", """        self.config, self.device = config, device
        self.weight = torch.tensor(config.class_weights, device=device)
"""),
         Change("losses.py", """        weight = torch.tensor(self.config.class_weights, device=self.device)
""", ""),
         Change("losses.py", "weight=weight", "weight=self.weight"))),
    Cause(
        "a boolean mask", (WAIT,), "02_masked_loss",
        "Only the device knows how many pixels are labelled, so indexing with a mask waits for that number.",
        (("losses.py", "logits.permute(0, 2, 3, 1)[labelled]"),),
        (Change("losses.py", """        labelled = masks != VOID
        return F.cross_entropy(logits.permute(0, 2, 3, 1)[labelled], masks[labelled], weight=self.weight)
""", """        labelled = masks != VOID
        total = F.cross_entropy(logits, masks, weight=self.weight, ignore_index=VOID, reduction="sum")
        # Without a labelled pixel both are zero, and so has the loss to be.
        divisor = (self.weight[torch.where(labelled, masks, 0)] * labelled).sum()
        return total / divisor.clamp(min=1e-12)
"""),)),
    Cause(
        "a loop over classes", (KERNELS,), "07_kernel_fusion",
        "Each class has its own comparison, product and sums, forward and backward, over all pixels.",
        (("losses.py", "(predicted * wanted).sum()"), ("losses.py", "(masks == number).float()"),
         ("losses.py", "predicted = probabilities[:, number]"), ("losses.py", "for number in range(self.config.classes)"),
         ("losses.py", "(2 * overlap + 1)")),
        (Change("losses.py", """        total = 0
        for number in range(self.config.classes):
            predicted = probabilities[:, number]
            wanted = (masks == number).float()
            overlap = (predicted * wanted).sum()
            total = total + 1 - (2 * overlap + 1) / (predicted.sum() + wanted.sum() + 1)
        return total / self.config.classes
""", """        numbers = torch.arange(self.config.classes, device=self.device).view(1, -1, 1, 1)
        wanted = (masks.unsqueeze(1) == numbers).float()
        overlap = (probabilities * wanted).sum((0, 2, 3))
        both = probabilities.sum((0, 2, 3)) + wanted.sum((0, 2, 3))
        return (1 - (2 * overlap + 1) / (both + 1)).mean()
"""),), seen_at=(("losses.py", "(predicted * wanted).sum()"),)),
    Cause(
        "a check of each loss", (WAIT,), "00_two_clocks",
        "An `if` needs a Python bool, in the middle of the step.",
        (("losses.py", "if torch.isnan(loss)"),),
        (Change("losses.py", """\
        loss = self.cross_entropy(logits, masks) + self.config.dice_weight * self.dice(logits, masks)
        if torch.isnan(loss):
            raise FloatingPointError("the loss is not a number")
        return loss
""", """        return self.cross_entropy(logits, masks) + self.config.dice_weight * self.dice(logits, masks)
"""),)),
    Cause(
        "scores read class by class", (WAIT, KERNELS), "03_metric_collection",
        "The host reads three numbers for each class and batch. Counted on the device, they can be read once an epoch.",
        (("metrics.py", "self.hits[number] +="), ("metrics.py", "self.predicted[number] +="),
         ("metrics.py", "self.wanted[number] +="), ("metrics.py", "for number in range(self.classes)")),
        (Change("metrics.py", """        self.hits, self.predicted, self.wanted = ([0] * config.classes for _ in range(3))
""", """        # Rows: the mask's class, the last one void. Columns: the predicted class.
        self.counts = torch.zeros((config.classes + 1) * config.classes, dtype=torch.int64, device=device)
"""),
         Change("metrics.py", """        prediction, masks = prediction[labelled], masks[labelled]
        for number in range(self.classes):
            self.hits[number] += ((prediction == number) & (masks == number)).sum().item()
            self.predicted[number] += (prediction == number).sum().item()
            self.wanted[number] += (masks == number).sum().item()
""", """        pairs = torch.where(labelled, masks, self.classes) * self.classes + prediction
        self.counts += torch.histc(pairs.float(), bins=len(self.counts), min=0, max=len(self.counts)).long()
"""),
         Change("metrics.py", """\
        counted = torch.tensor([self.hits, self.predicted, self.wanted], dtype=torch.float64)
        hits, predicted, wanted = counted
""", """        counts = self.counts.cpu().view(self.classes + 1, self.classes)[:-1].double()
        hits, predicted, wanted = counts.diagonal(), counts.sum(0), counts.sum(1)
""")), seen_at=(("metrics.py", "self.hits[number] +="),)),
    Cause(
        "scores of the labelled alone", (WAIT,), "02_masked_loss",
        "Only the device knows how many pixels are labelled, so indexing with a mask waits for that number.",
        (("metrics.py", "prediction, masks = prediction[labelled]"),), ()),
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
         ("train.py", "outputs.append((network(photos), masks))")),
        (Change("train.py", "def evaluate(", "@torch.no_grad()\ndef evaluate("),)),
    Cause(
        "outputs kept until the end", (MEMORY,), "08_memory",
        "The logits of all batches are in memory at once, but only the counts of each batch are needed.",
        (("train.py", "outputs = []"), ("train.py", "for logits, masks in outputs:"),
         ("train.py", "outputs.append((network(photos), masks))")),
        (Change("train.py", """    outputs = []
    for batch in loader:
        photos, masks = to_device(batch, config, device)
        outputs.append((network(photos), masks))
    scores = Scores(config, device)
    for logits, masks in outputs:
        scores.update(logits, masks)
""", """    scores = Scores(config, device)
    for batch in loader:
        photos, masks = to_device(batch, config, device)
        scores.update(network(photos), masks)
"""),)),
)
