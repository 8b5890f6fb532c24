"""Makes the helpers that stand in this folder importable from the tests in the folders below."""

import pytest
from previews import check_previews


@pytest.fixture(autouse=True)
def previews(monkeypatch):
    """Kernels whose previews were traced to the same tile IR as the kernels themselves."""
    return check_previews(monkeypatch)
