"""Tests with other libraries are collected where those are installed; all else is tested without them."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["test_torch*.py"]
