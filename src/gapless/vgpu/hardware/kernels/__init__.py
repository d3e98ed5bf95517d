"""Which kernels CUDA runs for an operator. Rules for single operators are read with the package."""

from . import dense, feature_maps, indexing, losses, sorting  # noqa: F401
