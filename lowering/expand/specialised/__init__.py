"""How a plain program becomes a kernel whose warps have roles.

The program is a loop over blocks, as anybody would write it:

    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc.relu()

**Who gets roles** (`planning.specialised`). Where the target has a copy engine for boxes of tensors and
matrix operations of four warps on workgroup memory, products of a loop can be asynchronous if the copy
engine can bring their blocks ahead: the blocks' places follow from the loop's counter, steps are multiples
of 16 bytes, rows of a product are a multiple of 64. Every refusal is a sentence in `explain`. Then one more
warp brings blocks, and groups of four warps multiply. There is a table of forms, best first, with what was
measured:

- ``specialised``: one team. Two groups have 64 rows each (or several times 64) of every program.
- ``alternating``: two teams with a program each. While one multiplies the other stores, so the matrix units
  never wait for an epilogue; taken where a group can hold all sums of a program.
- ``uniform``: all warps do the same, where there are no such operations or something is in the way.

**What moves** (`ring`). Each loop has a ring of as many slots as workgroup memory holds. A slot has two
transaction barriers: the copy engine's bytes fill it, and an arrival of each group empties it. Blocks that
a whole program keeps (the queries of attention) have a ring of one slot. Rings go on from program to
program: ``persistent`` workgroups run programs in turn, so blocks of the next one come while the last is
stored.

**Computed operands** (`computed`, `turn_ahead`; `planning.prologues`). In ``acc += A[i, k] @ (W[k, j].to(F32)
* scale).to(BF16)`` an operand is computed of a block. The block comes as the tensor has it, bytes as bytes; a
group reads its rows of it from the ring into registers, computes there what the matrix unit takes, and
multiplies from registers, which it can for the left operand: for a right one it makes the product with rows
and columns exchanged (``turned``). It does so for a piece of k at a time, in two sets of registers: while
the unit reads one set the next piece is made in the other. Warps give a slot back when all their lanes have
read it. Rows and columns that a turn computes with (scales of a group of k) are read in the turn before.
Where something else is made of an operand's blocks (``squares += (x * x).sum(1)`` beside ``acc += x @
w``), groups read them from the ring, too, in the layout of a left operand, or all of a small right one
(`planning.computed_on`).

**Products of products** (`chained`, `rotated`). In attention the second product takes what is computed of
the first one's result. The loop is then rotated by one turn: the products ``queries @ keys`` of a turn and
``weights @ values`` of the turn before are made beside one another, while registers do the softmax. It
follows from who takes what, not from a name: `planning.chained` splits the body into what the first
products need, what follows from them alone, and what also takes the carried sums, or says why it cannot.
Groups begin their products one after the other (`turns`), so one computes while the next multiplies. Sums
along rows are carried in parts and meet after the loop (`planning.parts`), masks are looked at as a whole
first (`masks`), and programs with more turns than others begin first. A block that is computed on in between,
such as numbers added to scores (`planning.beside`), comes by the copy engine, too: each group has rings of
its own rows of it, as groups are half a turn apart. It reads them while products are made, if these are long
and leave registers, and gives a slot back behind a fence: the copy engine knows nothing of reads by threads.

**Programs together** (`neighbours`, `together`). Where programs that are neighbours in the grid multiply with
the same blocks, as the blocks of queries of one head do with its keys, three of them share a workgroup: each
has a group of warps, all three empty the slots of the rings, and blocks come once for three programs. Turns
that only some of them take, as below the diagonal of causal attention, pass the others by.

**Few programs** (`clusters`). Where a grid fills less than half of the device, a cluster of workgroups
shares each program: every one makes a part of the turns, and sends its sums to the others' memory, always
in one order.

**Epilogues** (`store`, `ahead`). What follows the loop is done for one panel of columns at a time: reads come
a panel ahead, those of rows for the first panel before the loop, the panel goes through workgroup memory to
the copy engine, and few registers are in use beside the sums. A block of another tensor that the result is
computed with, such as a residual, comes by the copy engine while the loop runs, to the memory that the
result's panels go through: each warp reads its rows there and writes the result in their place.

**Registers.** The warps that bring give most of theirs to those that multiply. What a thread holds is
counted before: accumulators, carried rows, and the operand that goes from one product to the next; a form
that would spill is refused with the count.

The simulator runs all of this with its checks for races between warps and the copy engine, and `ptxas` must
find neither spills nor products that wait for one another: see tests/gpu/test_gpu_roles.py and
tests/gpu/test_gpu_chained.py.
"""

from gizml_tile.lowering.expand.specialised.ahead import open_ahead
from gizml_tile.lowering.expand.specialised.chained import expand_chained_loop
from gizml_tile.lowering.expand.specialised.clusters import (
    add_columns,
    add_first,
    cluster_of,
    first_alone,
    is_shared,
    open_sums,
    turns_of,
)
from gizml_tile.lowering.expand.specialised.kept import keep, open_kept
from gizml_tile.lowering.expand.specialised.pieces import open_pieces
from gizml_tile.lowering.expand.specialised.ring import give_once, open_rings, read_beside, take_once
from gizml_tile.lowering.expand.specialised.roles import expand_roles
from gizml_tile.lowering.expand.specialised.store import fetch_early, store_in_bulk
from gizml_tile.lowering.expand.specialised.turn_ahead import TurnAhead

__all__ = [
    "TurnAhead",
    "add_columns",
    "add_first",
    "cluster_of",
    "expand_chained_loop",
    "expand_roles",
    "fetch_early",
    "first_alone",
    "give_once",
    "is_shared",
    "keep",
    "open_ahead",
    "open_kept",
    "open_pieces",
    "open_rings",
    "open_sums",
    "read_beside",
    "store_in_bulk",
    "take_once",
    "turns_of",
]
