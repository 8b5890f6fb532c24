"""Passes over the kernel IR."""
