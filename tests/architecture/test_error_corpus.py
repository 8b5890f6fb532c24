"""The corpus of mistakes: programs and launches as text, each tested with its whole message and position.

It is in several files, each read by the test beside it: `tests/frontend/wrong_programs.txt` has bodies of
decorated kernels, `tests/tracing/wrong_*.txt` explicit programs, `tests/kernel/wrong_launches.txt` launches.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# What begins a message in each file.
MARKS = {
    "frontend/wrong_programs.txt": "> ",
    "kernel/wrong_launches.txt": "    ",
    **{f"tracing/{path.name}": "! " for path in sorted((TESTS / "tracing").glob("wrong_*.txt"))},
}
# What only those know who wrote the library, and blame.
INTERNAL = re.compile(
    r"gizml_tile\.|_node|_block\b|__(?!dlpack|cuda_array)\w|<lambda>|\b(node|Node|Trace|emitter|AssertionError|"
    r"TensorArgument|NoneType|your|illegal|invalid|forgot)\b"
)


def messages(name):
    """The messages of a file of the corpus."""
    lines = (TESTS / name).read_text().splitlines()
    mark = MARKS[name]
    return [line.removeprefix(mark) for line in lines if line.startswith(mark) and line[len(mark)] != " "]


@pytest.mark.parametrize("name", MARKS)
def test_messages_are_sentences_without_internal_words(name):
    found = messages(name)
    assert found
    for message in found:
        assert not INTERNAL.search(message), message
        assert not message.removesuffix("=...").endswith((".", "!", ";", " ")), message
        assert "  " not in message and len(message) < 420, message


def test_the_corpus_is_large():
    counts = {name: len(messages(name)) for name in MARKS}
    assert sum(counts.values()) >= 500, counts
