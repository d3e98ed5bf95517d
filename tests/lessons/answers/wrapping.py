"""Lesson 09, wrap: right answers that are not what the reference solution does, and wrong ones."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel


def converted_inside(model):
    """The conversion after the wrapping: it puts the norms into the module inside."""
    return nn.SyncBatchNorm.convert_sync_batchnorm(DistributedDataParallel(model.to("vgpu")))


def put_into_ddp(model):
    """The conversion of the module that is wrapped already, with its parameters and buffers."""
    ddp = DistributedDataParallel(model.to("vgpu"))
    ddp.module = nn.SyncBatchNorm.convert_sync_batchnorm(ddp.module)
    return ddp


def in_place(model):
    """The conversion changes the network that it is given, but not where that is a norm itself."""
    nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return DistributedDataParallel(model.to("vgpu"))


def trains_all(model):
    return DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model).to("vgpu").requires_grad_(True))


def without_ddp(model):
    return nn.SyncBatchNorm.convert_sync_batchnorm(model).to("vgpu")


def without_buffers(model):
    return DistributedDataParallel(model.to("vgpu"), broadcast_buffers=False)


def in_evaluation(model):
    return DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model).to("vgpu")).eval()


def nothing(model):
    DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model).to("vgpu"))


def replaced(norm_of, children=False):
    """Each BatchNorm by what ``norm_of`` makes of it; with ``children`` in the network itself, and in no block of it."""
    def wrap(model):
        model = norm_of(model) if isinstance(model, _BatchNorm) else model
        for module in [model] if children else list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, _BatchNorm):
                    setattr(module, name, norm_of(child))
        return DistributedDataParallel(model.to("vgpu"))

    return wrap


WRAP_ROUTES = [converted_inside, put_into_ddp, replaced(nn.SyncBatchNorm.convert_sync_batchnorm)]
WRAP_WRONG = [(without_ddp, "train separately"), (without_buffers, "its own rows"), (in_evaluation, "Leave it in training mode"),
              (nothing, "is there a `return`?"), (in_place, "Use the model that it returns"), (trains_all, "must stay frozen"),
              (replaced(lambda norm: nn.SyncBatchNorm(norm.num_features)), "its own weights"),
              (replaced(nn.SyncBatchNorm.convert_sync_batchnorm, children=True), "in nested modules too")]
