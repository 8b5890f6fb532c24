"""Expansion: from a tile program and its plan to the kernel IR of one thread."""
