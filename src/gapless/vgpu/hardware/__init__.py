"""The modelled GPU: its cards, clocks, memory, and how long which kernels take. Knows nothing of PyTorch."""
