"""The host's own work: Python, operators on CPU tensors, the ``DataLoader`` and its workers."""
