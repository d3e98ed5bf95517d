"""Fits of the kernel models' constants to measured times, a module each (``fit(rows, leave_out)``)."""
