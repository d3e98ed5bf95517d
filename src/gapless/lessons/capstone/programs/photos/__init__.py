"""A class for each pixel of aerial photos."""
