"""Bank conflicts by simulation of each access."""

import random

import pytest

from gizml_tile.layout import ideal_wavefronts, staged, wavefronts


def slow_wavefronts(addresses, width, banks=32):
    """Turn by turn: each turn every bank serves one word, to all lanes of the phase that want it."""
    lanes_together = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    turns = 0
    for first in range(0, 32, lanes_together):
        wanted = {
            (address + byte) // 4
            for address in addresses[first : first + lanes_together]
            if address is not None
            for byte in range(width)
        }
        while wanted:
            served = {}
            for word in sorted(wanted):
                served.setdefault(word % banks, word)
            wanted -= set(served.values())
            turns += 1
    return turns


@pytest.mark.parametrize("width", (1, 2, 4, 8, 16))
def test_wavefronts_by_serving_words_turn_by_turn(width):
    generator = random.Random(width)
    for span in (1, 8, 64, 512):
        for _ in range(50):
            addresses = [generator.randrange(span) * width for _ in range(32)]
            addresses = [None if generator.random() < 0.2 else each for each in addresses]
            assert wavefronts(addresses, width) == slow_wavefronts(addresses, width)
            assert wavefronts(addresses, width) >= ideal_wavefronts(addresses, width)


def test_known_accesses():
    in_a_row = [4 * lane for lane in range(32)]
    assert wavefronts(in_a_row, 4) == 1
    assert wavefronts([128 * lane for lane in range(32)], 4) == 32
    assert wavefronts([0] * 32, 4) == 1
    assert wavefronts([16 * lane for lane in range(32)], 16) == ideal_wavefronts(in_a_row, 4) * 4
    assert wavefronts([128 * (lane % 8) for lane in range(32)], 16) == 32
    assert wavefronts([None] * 32, 4) == 0
    assert wavefronts(in_a_row, 4, banks=16) == 2


def test_errors():
    with pytest.raises(ValueError, match="1, 2, 4, 8 or 16 bytes, found 3"):
        wavefronts([0] * 32, 3)
    with pytest.raises(ValueError, match="an access of 8 bytes needs such an address, found 4"):
        wavefronts([4] * 32, 8)
    with pytest.raises(ValueError, match="powers of two, found 3 and 64"):
        staged(3, 64)
    with pytest.raises(ValueError, match="byte 64 of row 0 is outside"):
        staged(8, 64).offset(0, 64)


@pytest.mark.parametrize("row_bytes", (16, 32, 64, 128, 256, 1024))
def test_staged_rows_are_written_and_read_without_conflicts(row_bytes):
    place = staged(64, row_bytes)
    chunks = row_bytes // 16
    # 32 lanes write 32 chunks in the order of rows
    for first in range(0, 64 * chunks, 32):
        numbers = range(first, first + 32)
        addresses = [place.offset(number // chunks, number % chunks * 16) for number in numbers]
        assert wavefronts(addresses, 16) == 4
    # 8 lanes read one chunk of 8 rows in a row, as an 8x8 matrix load does
    for row in range(0, 64, 8):
        for chunk in range(chunks):
            addresses = [place.offset(row + lane, chunk * 16) for lane in range(8)]
            assert wavefronts([*addresses, *[None] * 24], 16) == 1


@pytest.mark.parametrize("rows, row_bytes", [(64, 16), (8, 32), (16, 64), (32, 128), (4, 256), (4, 8)])
def test_staged_is_a_permutation_and_linear(rows, row_bytes):
    place = staged(rows, row_bytes)
    offsets = {place.offset(row, byte) for row in range(rows) for byte in range(row_bytes)}
    assert offsets == set(range(rows * row_bytes))
    for element_bytes in (1, 2, 4):
        linear = place.linear(element_bytes)
        for row in range(rows):
            for column in range(row_bytes // element_bytes):
                offset = linear.apply(row=row, column=column)[1]
                assert offset * element_bytes == place.offset(row, column * element_bytes)


@pytest.mark.parametrize("row_bytes, chunks", [(128, 8), (64, 4), (32, 2)])
def test_staged_agrees_with_the_swizzles_that_are_named_by_their_row(row_bytes, chunks):
    place = staged(64, row_bytes)
    for row in range(64):
        for byte in range(0, row_bytes, 16):
            address = row * row_bytes + byte
            assert place.offset(row, byte) == address ^ ((address >> 7 & chunks - 1) << 4)


def test_text():
    assert str(staged(64, 128)) == "64 rows of 128 bytes, chunk ^ (row & 7)"
    assert str(staged(64, 64)) == "64 rows of 64 bytes, chunk ^ (row >> 1 & 3)"
    assert str(staged(64, 16)) == "64 rows of 16 bytes, in order"
