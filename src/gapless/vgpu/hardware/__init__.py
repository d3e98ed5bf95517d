"""The modelled GPU: clocks, memory, cards, kernels. What has rules of its own for operators is read with the package."""

from . import dense, feature_maps, indexing, losses, sorting  # noqa: F401
