"""Makes the helpers that stand in this folder importable from the tests in the folders below."""
