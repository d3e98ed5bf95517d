"""Boxes and masks of nuclei in pictures from a microscope."""
