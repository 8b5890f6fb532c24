"""Conversions carried out element by element, from nothing but what they describe."""

import random
from itertools import pairwise, product

import pytest

from gizml_tile.layout import Exchange, Linear, Renaming, Shuffle, blocked, conversion, wavefronts


def combine(masks, number):
    total = 0
    for bit, mask in enumerate(masks):
        if number >> bit & 1:
            total ^= mask
    return total


def held(layout):
    """Per thread, the element of each register."""
    threads = product(range(layout.size("lane")), range(layout.size("warp")))
    return {(lane, warp): list(layout.table(lane=lane, warp=warp)) for lane, warp in threads}


def rename(values, step):
    return {thread: [registers[old] for old in step.registers] for thread, registers in values.items()}


def exchange_lanes(values, step):
    arranged = {}
    for (lane, warp), registers in values.items():
        before = combine(step.before_lane, lane) ^ combine(step.before_warp, warp)
        arranged[lane, warp] = [registers[register ^ before] for register in range(len(registers))]
    result = {}
    for lane, warp in values:
        taken = {}
        for each in step.rounds:
            other = each.lane ^ combine(step.lane_lane, lane) ^ combine(step.lane_warp, warp)
            if step.is_butterfly:
                assert other == lane ^ each.lane
            taken[each.take] = arranged[other, warp][each.give]
        after = combine(step.after_lane, lane)
        result[lane, warp] = [taken[kept ^ after] for kept in step.copies]
    return result


def through_memory(values, step, parts):
    """The exchange in so many turns, each with its part of the memory."""
    size = step.source.elements // parts
    result = {thread: {} for thread in values}
    for turn in range(parts):
        memory, writer = {}, {}
        for (lane, warp), registers in values.items():
            if lane & step.store.lane_mask or warp & step.store.warp_mask:
                continue
            for address, group in addresses(step.store, lane, warp, turn, size):
                for element, register in enumerate(group):
                    assert address + element not in memory, "an element is stored twice"
                    memory[address + element] = registers[register]
                    writer[address + element] = warp
        assert sorted(memory) == list(range(size)), "the part of the memory is used exactly"
        for lane, warp in values:
            for address, group in addresses(step.load, lane, warp, turn, size):
                for element, register in enumerate(group):
                    assert not step.within_warp or writer[address + element] == warp
                    result[lane, warp][register] = memory[address + element]
    return {thread: [found[kept] for kept in step.copies] for thread, found in result.items()}


def addresses(side, lane, warp, turn, size):
    thread = combine(side.lane, lane) ^ combine(side.warp, warp)
    for offset, group in side.groups:
        if turn * size <= offset < (turn + 1) * size:
            address = (offset ^ thread) - turn * size
            assert 0 <= address < size, "a thread leaves its turn"
            assert address % len(group) == 0
            yield address, group


def moved(step):
    """What each thread's registers hold after a conversion, and after its other ways to go."""
    values = held(step.source)
    match step:
        case Renaming():
            return [rename(values, step)]
        case Shuffle():
            return [exchange_lanes(values, step)]
        case Exchange():
            return [through_memory(values, step, parts) for parts in {1, step.parts}]
        case _:
            return [values]


def accumulator(rows, columns, warps_along_rows=4, warps_along_columns=1):
    """The spread of a matrix product's result: repeats of 16 rows and 8 columns for each warp."""
    register, warp = [(0, 1), (8, 0)], []
    row, column = 16, 8
    for _ in range(warps_along_rows.bit_length() - 1):
        warp.append((row, 0) if row < rows else (0, 0))
        row *= 2
    while column * warps_along_columns < columns:
        register.append((0, column))
        column *= 2
    while column < columns:
        warp.append((0, column))
        column *= 2
    while row < rows:
        register.append((row, 0))
        row *= 2
    lane = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]
    return Linear.of((rows, columns), register=register, lane=lane, warp=warp)


def operand(rows, columns, repeated_warps=2):
    """A first operand in registers: 16 x 16 fragments, warp bits that hold the same rows."""
    register = [(0, 1), (8, 0), (0, 8)]
    register += [(0, 16 << bit) for bit in range(max((columns // 16).bit_length() - 1, 0))]
    lane = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]
    return Linear.of((rows, columns), register=register, lane=lane, warp=[(16, 0), (0, 0)][:repeated_warps])


ACCUMULATOR = accumulator(64, 64)
ROWS = blocked((64, 64), vector=8, warps=4)
PAIRS = [
    (ACCUMULATOR, ACCUMULATOR),
    (ACCUMULATOR, ROWS),
    (ROWS, ACCUMULATOR),
    (ROWS, blocked((64, 64), (0, 1), 8, 32, 4)),
    (blocked((64, 64), vector=1, warps=4), blocked((64, 64), (0, 1), 4, 32, 4)),
    (blocked((16, 16), vector=4, warps=4), blocked((16, 16), (0, 1), 4, 32, 4)),
    (accumulator(128, 128, 2, 2), blocked((128, 128), vector=4, warps=4)),
    (blocked((32, 64), vector=8, warps=4), operand(32, 64)),
    (ACCUMULATOR.slice(1), blocked((64, 1), (0, 1), 1, 32, 4)),
    (blocked((64, 1), (0, 1), 1, 32, 4), ACCUMULATOR.slice(1)),
    (ACCUMULATOR.slice(0), blocked((1, 64), vector=4, warps=4)),
    (blocked((1, 64), vector=4, warps=4), ACCUMULATOR.slice(0)),
    (ACCUMULATOR.slice(1), ROWS.slice(1)),
    (ROWS.slice(1), ACCUMULATOR.slice(1)),
    (blocked((2, 2), vector=2, warps=4), blocked((2, 2), (0, 1), 2, 32, 4)),
    (blocked((1, 1), warps=4), blocked((1, 1), warps=4).extended("register", [(0, 0)])),
    (
        Linear.of((8, 8), register=[(0, 1), (0, 2), (4, 0), (1, 0)], lane=[(2, 0), (0, 4)]),
        Linear.of((8, 8), register=[(2, 0), (0, 1), (0, 2), (0, 4)], lane=[(4, 0), (1, 0)]),
    ),
]


@pytest.mark.parametrize("element_bytes", (1, 2, 4, 8))
@pytest.mark.parametrize("source, target", PAIRS, ids=lambda layout: str(layout)[:30])
def test_every_way_moves_every_element(source, target, element_bytes):
    expected = held(target)
    chosen = conversion(source, target, element_bytes)
    shuffled = [chosen] if chosen.kind == "shuffle" else []
    for step in (chosen, conversion(source, target, element_bytes, "workgroup"), *shuffled):
        for result in moved(step):
            assert result == expected


def random_layout(shape, lanes, warps, generator, registers=None):
    """A layout with any bases, zero and repeated ones too, made to hold the whole tile."""
    rows, columns = shape
    places = [(1 << bit, 0) for bit in range(rows.bit_length() - 1)]
    places += [(0, 1 << bit) for bit in range(columns.bit_length() - 1)]
    mixed = [generator.choice(places) for _ in range(lanes + warps)]
    if generator.random() < 0.5:
        mixed = [generator.choice([place, (0, 0), (place[0] ^ 1 % rows, place[1])]) for place in mixed]
    bases = {"lane": mixed[:lanes], "warp": mixed[lanes:]}
    register = [place for place in places if place not in mixed]
    register += [generator.choice([*places, (0, 0)]) for _ in range(generator.randrange(3))]
    generator.shuffle(register)
    layout = Linear.of(shape, register=register, **bases)
    return layout if layout.is_surjective else random_layout(shape, lanes, warps, generator)


def random_pairs(count, warps):
    generator = random.Random(f"{count} {warps}")
    for _ in range(count):
        shape = (1 << generator.randrange(4), 1 << generator.randrange(1, 4))
        lanes = generator.randrange(1, 4)
        yield tuple(random_layout(shape, lanes, warps, generator) for _ in range(2))


def test_random_pairs_move_every_element():
    kinds = set()
    for source, target in (*random_pairs(150, 0), *random_pairs(150, 2)):
        expected = held(target)
        for kind in (None, "workgroup"):
            step = conversion(source, target, 4, kind)
            kinds.add(step.kind)
            assert all(result == expected for result in moved(step)), f"{source} to {target}: {step}"
    assert kinds >= {"shuffle", "workgroup"}


def test_every_random_pair_of_one_warp_can_be_shuffled():
    for source, target in random_pairs(300, 0):
        step = conversion(source, target, 4, "shuffle")
        assert moved(step) == [held(target)], f"{source} to {target}: {step}"


def test_registers_are_renamed_for_nothing():
    order = [3, 0, 4, 2, 1]
    step = conversion(
        ACCUMULATOR, ACCUMULATOR.with_bases("register", [ACCUMULATOR.bases("register")[i] for i in order])
    )
    assert step.kind == "registers"
    assert sorted(step.registers) == list(range(32))
    wider = conversion(ACCUMULATOR.slice(1), ACCUMULATOR.slice(1).without_replicas())
    assert (wider.kind, wider.registers) == ("registers", (0, 2))


def test_the_example_of_direct_stores_needs_two_exchanges_of_half_the_registers():
    """Four neighbouring columns in each of four lanes, wanted as all four rows of four columns in one."""
    target = ACCUMULATOR.with_bases("register", [(0, 1), (0, 2), (0, 4), (8, 0), (0, 32)])
    target = target.with_bases("lane", [(0, 8), (0, 16), (1, 0), (2, 0), (4, 0)])
    step = conversion(ACCUMULATOR, target, 2, "shuffle")
    assert step.is_butterfly
    assert (len(step.rounds), step.shuffles, step.together) == (32, 24, 2)
    assert moved(step) == [held(target)]


def test_reading_a_replica_needs_no_exchange():
    everywhere = Linear.of((1, 4), register=[(0, 1), (0, 2)], lane=[(0, 0), (0, 0)])
    spread = Linear.of((1, 4), lane=[(0, 1), (0, 2)])
    step = conversion(everywhere, spread)
    assert (step.kind, step.shuffles) == ("shuffle", 0)
    assert moved(step) == [held(spread)]


def test_many_readers_of_one_lane_take_turns():
    source = Linear.of((1, 4), register=[(0, 1)], lane=[(0, 2)], warp=[(0, 0)])
    target = Linear.of((1, 4), lane=[(0, 1)], warp=[(0, 2)])
    step = conversion(source, target, 4, "shuffle")
    assert len(step.rounds) == 2
    assert moved(step) == [held(target)]


FULL_PAIRS = [
    (source, target)
    for shape, warps in product(((64, 64), (128, 64), (32, 256)), (4, 8))
    for source, target in pairwise(
        (
            accumulator(*shape, 2, warps // 2),
            blocked(shape, vector=8, warps=warps),
            blocked(shape, (0, 1), 8, 32, warps),
            blocked(shape, vector=4, warps=warps),
            accumulator(*shape, 2, warps // 2).transposed().transposed(),
            blocked(shape, (0, 1), 4, 32, warps),
        )
    )
]


@pytest.mark.parametrize("element_bytes", (1, 2, 4))
def test_exchanges_of_whole_tiles_are_without_bank_conflicts(element_bytes):
    for source, target in FULL_PAIRS:
        step = conversion(source, target, element_bytes, "workgroup")
        assert step.is_conflict_free, f"{source} to {target}: {step}"


def scattered(shape, warps, generator):
    """A layout with each place once, its bits anywhere and mixed, 32 lanes and some warps."""
    rows, columns = (extent.bit_length() - 1 for extent in shape)
    places = [(1 << bit, 0) for bit in range(rows)] + [(0, 1 << bit) for bit in range(columns)]
    generator.shuffle(places)
    for _ in range(generator.randrange(6)):
        first, second = generator.sample(range(len(places)), 2)
        (row, column), (above, beside) = places[first], places[second]
        places[first] = row ^ above, column ^ beside
    return Linear.of(shape, register=places[5 + warps :], lane=places[:5], warp=places[5 : 5 + warps])


def test_exchanges_without_replicas_have_no_bank_conflicts_whatever_the_layouts():
    generator = random.Random(0)
    for _ in range(60):
        shape = generator.choice([(64, 64), (128, 32), (32, 32), (16, 128)])
        warps = generator.choice((0, 2, 3))
        source, target = (scattered(shape, warps, generator) for _ in range(2))
        for element_bytes in (1, 2, 4, 8):
            step = conversion(source, target, element_bytes, "workgroup")
            assert step.is_conflict_free, f"{source} to {target}: {step}"


def test_bank_conflicts_are_the_same_in_every_access():
    step = conversion(ACCUMULATOR, ROWS, 4, "workgroup")
    for side in (step.store, step.load):
        for group, warp in product(range(len(side.groups)), range(4)):
            turns = wavefronts(side.addresses(group, warp), side.width_bytes)
            assert turns == side.wavefronts()


def test_an_exchange_inside_of_a_warp_says_so():
    rows = blocked((64, 64), vector=8, warps=4).with_bases("warp", [(16, 0), (32, 0)])
    rows = rows.with_bases("register", [(0, 1), (0, 2), (0, 4), (4, 0), (8, 0)])
    assert conversion(ACCUMULATOR, rows, 4, "workgroup").within_warp
    assert not conversion(ACCUMULATOR, ROWS, 4, "workgroup").within_warp


@pytest.mark.parametrize(
    "source, target, kind, text",
    [
        (ACCUMULATOR, ACCUMULATOR.slice(0), None, r"keeps the shape, found \[64, 64\] and \[1, 64\]"),
        (ACCUMULATOR, blocked((64, 64), warps=8), None, "keeps the threads, found 4 and 8 warps"),
        (ACCUMULATOR.with_bases("register", []), ACCUMULATOR, None, "does not hold every element"),
        (ACCUMULATOR, ROWS, "shuffle", "no conversion of kind shuffle"),
        (ACCUMULATOR, ROWS, "registers", "no conversion of kind registers"),
        (ACCUMULATOR, ROWS, "none", "no conversion of kind none"),
        (ACCUMULATOR, ROWS, "magic", "one of none, registers, shuffle, workgroup, found magic"),
        (
            Linear.of((1, 2), lane=[(0, 1)], register=[]),
            Linear.of((1, 2), lane=[(0, 1)]),
            None,
            "register, lane, warp in this order",
        ),
    ],
)
def test_errors_say_what_is_wrong(source, target, kind, text):
    with pytest.raises(ValueError, match=text):
        conversion(source, target, 4, kind)


def test_text():
    assert str(conversion(ACCUMULATOR, ACCUMULATOR)) == "none: the layouts are equal"
    assert str(conversion(ACCUMULATOR, ROWS)) == (
        "workgroup: store 8 x 16 bytes at 4 of 4 wavefronts, "
        "load 16 x 8 bytes at 2 of 2 wavefronts, 16384 bytes"
    )
