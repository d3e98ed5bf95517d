"""PyTorch's operator database against the virtual GPU."""

from unittest import mock

import torch

# Importing it would forbid the whole process to set cudnn's switches (torch/testing/_internal/common_utils.py), as other tests do.
with mock.patch.object(torch.backends, "disable_global_flags"):
    import torch.testing._internal.common_utils
