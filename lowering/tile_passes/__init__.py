"""Part of gizml_tile."""
