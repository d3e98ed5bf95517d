"""The card's memory, and PyTorch's caching allocator over it."""
