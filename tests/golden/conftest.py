"""Golden texts: a missing or different one fails; ``--update-golden`` writes it for review."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write golden texts instead of comparing")


@pytest.fixture
def golden(request):
    def compare(path, text):
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.exists(), f"there is no {path.name}; --update-golden writes it"
        assert text == path.read_text()

    return compare
