"""Lesson 02: a masked segmentation loss whose data-dependent sizes make the host wait."""
