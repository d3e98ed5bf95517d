"""The clocks: host, streams, engines, graphs of kernels, worker processes."""
