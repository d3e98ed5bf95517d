"""Lesson 05, ``to_channels_last``: right answers by other routes, and wrong ones."""

import torch
import torch.nn.functional as F

from gapless.lessons.convolutions.to_channels_last.slow import to_channels_last as as_handed_out


def mixed(block, x):
    return block.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def padded(x, channels):
    return F.pad(x, (0, 0, 0, 0, 0, channels - x.shape[1]))


def made(model, *, mix=mixed, pad=padded, mean=lambda x: x.mean((2, 3)), relu=F.relu, memory_format=torch.channels_last):
    model = model.to(memory_format=memory_format)

    def forward(images):
        x = model.stem(images)
        for block in model.blocks:
            y = mix(block, x)
            x = relu(pad(x, y.shape[1]) + block.norm(block.conv(y)))
        return model.head(mean(x))

    return forward


def one_by_one(model):
    """The linear layer as a convolution of one pixel."""
    def mix(block, x):
        return F.conv2d(x, block.mix.weight[:, :, None, None], block.mix.bias)

    return made(model, mix=mix)


def by_einsum(model):
    """In mixed precision the product is rounded before the bias is added, and after."""
    def mix(block, x):
        return torch.einsum("nchw,oc->nohw", x, block.mix.weight) + block.mix.bias[:, None, None]

    return made(model, mix=mix)


def joined_zeros(model):
    """The shortcut joined of what comes in and of zeros, both in channels-last order."""
    def pad(x, channels):
        n, c, h, w = x.shape
        return torch.cat([x, x.new_zeros(n, h, w, channels - c).permute(0, 3, 1, 2)], 1)

    return made(model, pad=pad)


def added_in_place(model):
    """No zeros at all: what comes in is added to the channels that there are."""
    model = model.to(memory_format=torch.channels_last)

    def forward(images):
        x = model.stem(images)
        for block in model.blocks:
            y = block.norm(block.conv(mixed(block, x)))
            y[:, :x.shape[1]] += x
            x = y.relu()
        return model.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    return forward


def rows_of_pixels(model):
    """As handed out, with views only."""
    def mix(block, x):
        n, c, h, w = x.shape
        return block.mix(x.permute(0, 2, 3, 1).view(n * h * w, c)).view(n, h, w, -1).permute(0, 3, 1, 2)

    return made(model, mix=mix, mean=lambda x: x.flatten(2).mean(2))


FORMAT_ROUTES = [one_by_one, by_einsum, joined_zeros, added_in_place, rows_of_pixels]

HANDED_OUT = "The function that you were given has them right too"


def contiguous(model):
    return made(model, memory_format=torch.contiguous_format)


def relabelled(block, x):
    n, _, h, w = x.shape
    return block.mix(x.permute(0, 2, 3, 1)).reshape(n, -1, h, w)


def wrong_rows(block, x):
    n, c, h, w = x.shape
    return block.mix(x.reshape(n * h * w, c)).view(n, h, w, -1).permute(0, 3, 1, 2)


FORMAT_WRONG = [
    (as_handed_out, HANDED_OUT),
    (lambda model: made(model, mix=relabelled), "never reorder numbers"),
    (lambda model: made(model, mix=wrong_rows), "are not pixels"),
    (lambda model: made(model, mix=lambda block, x: block.mix(x.permute(0, 3, 2, 1)).permute(0, 3, 1, 2).contiguous()), "raised"),
    (lambda model: made(model, pad=lambda x, c: F.pad(x, (0, 0, 0, 0, c - x.shape[1], 0))), "belong after them"),
    (lambda model: made(model, pad=lambda x, c: x.repeat(1, c // x.shape[1], 1, 1)), "repeat the old ones"),
    (lambda model: made(model, pad=lambda x, c: 0), "The shortcut is missing"),
    (lambda model: made(model, mean=lambda x: x.amax((2, 3))), "the mean over the pixels"),
    (lambda model: made(model, mean=lambda x: x.flatten(2)[:, :, 0]), "not one of them"),
    (lambda model: made(model, relu=lambda x: x), "outputs"),
    (lambda model: made(model.eval()), "evaluation mode"),
    (lambda model: model, "not the function `forward(images)`"),
    (lambda model: None, "not the function `forward(images)`"),
    (lambda model: lambda images: made(model)(images).tolist(), "a tensor N×8"),
    (lambda model: lambda images: made(model)(images.detach()).detach(), "raised"),
    (lambda model: torch.no_grad()(made(model)), "raised"),
]
