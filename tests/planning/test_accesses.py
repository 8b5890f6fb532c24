"""Which vector a read or put takes, and why not a wider one; how many warps a program gets."""

import numpy as np
import pytest

from gizml_tile.dtypes import BF16, F32, to_numpy
from gizml_tile.errors import TileError
from gizml_tile.layout import blocked, vector_width
from gizml_tile.lowering.planning.accesses import automatic_warps, best_blocked, plan_access
from gizml_tile.lowering.planning.plan import Access, TileLayout
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.lowering.planning.vectors import Traffic
from gizml_tile.program import trace
from gizml_tile.target import Target

TARGET = Target("cuda", "sm_90a")
WHOLE = AccessFacts((True, True), (16, 16), True)
ROWS = TileLayout("rows", blocked((16, 32), (1, 0), 4))


def chosen(facts=WHOLE, kinds=("any", "unit"), alignment=16, layout=ROWS, window=False, forced=None):
    """The access of a read of [16, 32] blocks of F32, and the table of what was looked at."""
    x = np.zeros((64, 64), np.float32)

    def body(p):
        blocks = p.read(x, [16, 32])
        (blocks.window if window else blocks.at)([p.id(0), p.id(1)])

    program = trace("test", body).program
    (node,) = [node for node in program.body.walk() if node.op == "read"]
    signature = Signature((kinds,), (alignment,), (facts,), 2, False, False)
    access, choice = plan_access(program, node, layout, signature, facts, forced)
    assert choice.chosen == choice.candidates[-1].name
    assert all(not each.accepted and each.reason for each in choice.candidates[:-1]) or forced
    return access, [(each.name, each.reason) for each in choice.candidates]


def test_the_widest_vector_where_everything_fits():
    assert chosen() == (Access(ROWS, 1, 4, (False, False), False), [("vector 16 bytes", "")])
    columns = TileLayout("columns", blocked((16, 32), (0, 1), 4))
    access, _ = chosen(kinds=("unit", "any"), layout=columns)
    assert access == Access(columns, 0, 4, (False, False), False)


def test_why_not_a_wider_vector():
    def refusal(**settings):
        access, table = chosen(**settings)
        assert not access.branch
        return access.vector, table[0][1]

    assert refusal(kinds=("any", "any")) == (1, "no axis of the block is contiguous in memory")
    assert refusal(alignment=8) == (2, "address and strides are only known to be multiples of 8 bytes")
    assert refusal(alignment=4) == (1, "address and strides are only known to be multiples of 4 bytes")
    narrow = TileLayout("narrow", blocked((16, 32), (1, 0), 1))
    wanted = "a thread has only 1 neighbouring column in the layout narrow"
    assert refusal(layout=narrow) == (1, wanted)
    # Where memory has no wider pieces, layouts have no more neighbours either: memory is the reason.
    wanted = "address and strides are only known to be multiples of 8 bytes"
    assert refusal(layout=narrow, alignment=8) == (1, wanted)
    shifted = AccessFacts((True, True), (16, 2), True)
    wanted = "offsets or the size are only known to be multiples of 2"
    assert refusal(facts=shifted, window=True) == (2, wanted)
    assert refusal(facts=shifted, window=True, layout=narrow) == (1, wanted)


def test_whole_blocks_take_the_wide_path_where_only_the_end_is_ragged():
    ragged = AccessFacts((True, False), (16, 1), True)
    access, table = chosen(facts=ragged)
    assert access == Access(ROWS, 1, 4, (False, True), False, branch=True)
    end = "by whole blocks; the end, as the size is only known to be a multiple of 1, goes by elements"
    assert table == [("vector 16 bytes", end)]
    # A size that whole vectors divide needs only masks.
    access, _ = chosen(facts=AccessFacts((False, False), (1, 4), False))
    assert access == Access(ROWS, 1, 4, (True, True), True)


def test_a_forced_variant_serves_or_says_why_not():
    access, table = chosen(forced="element")
    assert access.vector == 1 and len(table) == 3
    with pytest.raises(TileError) as error:
        chosen(alignment=8, forced="vector 16 bytes")
    assert error.value.message == (
        "read cannot be made by 'vector 16 bytes': address and strides are only known to be multiples of 8 "
        "bytes; variants that can: vector 8 bytes, element"
    )
    names = "there is no such variant; variants that can: vector 16 bytes, vector 8 bytes, element"
    with pytest.raises(TileError, match=names):
        chosen(forced="bulk")


def test_blocked_layouts_have_the_neighbours_that_suit_the_tensors():
    wide, narrow, single = Traffic(4, 4), Traffic(2, 8), Traffic(4, 1)
    for moves, vector in (([wide], 4), ([narrow], 8), ([wide, narrow], 4), ([single], 1), ([], 4)):
        layout = best_blocked((64, 128), moves, 1, TARGET, 4)
        assert layout.name == f"blocked {vector} wide"
        assert vector_width(layout.linear, 1)[0] >= vector
    assert vector_width(best_blocked((64, 128), [narrow], 0, TARGET, 4).linear, 0)[0] >= 8
    # 32 x 32 over 256 threads leave each 4 neighbours of F32, and of BF16 too.
    for move in (wide, narrow):
        layout = best_blocked((32, 32), [move], 1, TARGET, 8)
        assert layout.registers == 4 and vector_width(layout.linear, 1)[0] == 4
    assert best_blocked((1, 1), [wide], 1, TARGET, 4).registers == 1


def program(shape, dtype, body):
    x = np.zeros(shape, to_numpy(dtype))
    return trace("test", lambda p: body(p, x), grid_rank=1).program


def elementwise(p, x):
    p.write(x, [x.shape[-1]]).put(p.read(x, [x.shape[-1]]).at([p.id(0)] * x.ndim), [p.id(0)] * x.ndim)


def softmax(p, x):
    row = p.read(x, [x.shape[-1]]).at([p.id(0), 0])
    p.write(x, [x.shape[-1]]).put(row.sub(row.max(1)).exp(), [p.id(0), 0])


@pytest.mark.parametrize(
    ("elements", "dtype", "warps"),
    [(32, F32, 1), (512, F32, 4), (1024, F32, 8), (1024, BF16, 4), (2048, BF16, 8), (16384, F32, 8),
     (16384, BF16, 8), (32768, F32, 16)],
)  # fmt: skip
def test_elementwise_programs_get_a_vector_a_thread(elements, dtype, warps):
    assert automatic_warps(program((elements,), dtype, elementwise), TARGET) == warps


@pytest.mark.parametrize(
    ("elements", "warps"),
    [(64, 1), (512, 1), (1024, 1), (2048, 2), (4096, 4), (8192, 8), (16384, 8), (32768, 16), (65536, 16)],
)
def test_rows_get_32_elements_a_thread_and_64_before_more_than_8_warps(elements, warps):
    assert automatic_warps(program((4, elements), BF16, softmax), TARGET) == warps
