"""The kernel IR's values: instructions of one thread, in structured blocks.

An instruction is its own value: ``count`` registers of one storage type (a *register* is one element of
a tile, as in a layout). Operations act on whole vectors of registers, so a kernel stays about as long
as the tile program that it came from, however large its tiles are::

    %7  fma f32 x 16: %4 %5 %6          # 16 fused multiply-adds, one for each register
    %8  pick f32 x 4: %7 [0 4 8 12]     # a renaming of registers; costs nothing

Operands of one register stretch to any count. Types smaller than 32 bits lie packed in 32-bit hardware
registers, in order, so eight BF16 registers are four of the machine's: that is what vector accesses and
matrix units take. A MASK register is a predicate. A warp is what a target runs in lockstep, `Facts.lanes`
threads: 32, or 64; a thread's lane and warp are its number's rest and quotient by that.

Leaves
    constant        attr: a number, or a tuple of ``count`` numbers
    param           a block's parameter; attr: its number
    thread          I32: this thread's number in its workgroup, from 0
    lane, warp      I32: the number in the warp, and the warp's number (the same in all its lanes)
    workgroup       I32: this workgroup's number along an axis (attr) of the hardware's grid
    workgroups      I32: how many there are along it
    rank            I32: this workgroup's number in its cluster
    parameter       attr: `Parameter`; I64, or F32 for a float scalar

Registers
    pick            attr: which registers, in order, repeats allowed
    join            the operands' registers, one after the other
    bitcast         the same bits as ``dtype``, register by register (sizes agree)
    again           value, other: the value's registers, which an assembler takes for new ones that are there
                    once the other's are, so that it makes again from them what it made before
    convert         the value as ``dtype``: to a float rounds to nearest even (FP8 saturates); a float to an
                    integer truncates and saturates, NaN gives 0; integers wrap, and extend their sign
                    (U8: zeros); MASK gives 0 and 1

Mathematics, register by register
    neg abs add sub mul fma div sqrt            IEEE, nearest even, subnormals kept; integers wrap
    min max                                     floats: a NaN loses, -0 is below +0; integers: signed
    minimum maximum                             of floats; a NaN wins, of zeros either may
    rem                                         integers; div and rem truncate, by zero undefined
    high                                        the upper 32 bits of the unsigned product of two I32
    and or xor not shl shr ushr                 bits; also and, or, xor, not of MASKs; counts in range
    popcount clz                                the bits that are set; the zeros before the first, of 0 all
    lt le gt ge eq ne                           a MASK; false with NaN but ne
    select                                      mask, yes, no
    exp2 log2 reciprocal rsqrt tanh sin cos     approximate: the special-function unit's; sin, cos to pi

Memory (an access's offset counts elements of the memory's type)
    load            offsets, [mask]             attr: `Access`; masked accesses give ``pad``
    store           value, offsets, [mask]      attr: `Access`
    atomic          value, offsets, [mask]      attr: `Access` to a tensor, with what it combines: add, max or
                                                min of what is there and the value; of floats add alone.
                                                Or to one element of a buffer of I32
    update          offset, [mask]              one block (old) -> new; attr: `Access` to one element of a
                                                tensor, which the block gives anew again and again until no
                                                other thread's came between
    matrix_load     offsets                     attr: `MatrixAccess`
    matrix_store    value, offsets              attr: `MatrixAccess`
    copy            to offsets, from offsets, [mask]    attr: `Copy`; global to workgroup memory,
                                                asynchronous; what is masked lands as zeros
    copy_commit                                 closes this thread's group of copies
    copy_wait                                   attr: how many newest groups may still be in flight

Between threads
    barrier         attr: `Barrier`; memory of the workgroup is ordered for those who meet
    warp_barrier    likewise in a warp
    shuffle         value [, lane]              attr: a number to XOR the lane with, or None with a lane (of
                                                which the bits below the warp's lanes count)
    mma             a, b, c                     attr: `Matrix`: c + a @ b on a matrix unit, warp by warp; of
                                                floats within (k + 1) * 2^-24 of the sum of magnitudes, for
                                                atoms whose sums keep 24 bits
    outer           a, b, c                     c[i, j] + a[i] * b[j]: fused multiply-adds, i slowest

Clusters: neighbouring workgroups that run at the same time and reach each other's memory
    remote_load     offsets, rank, [mask]       attr: `Access` to a buffer of the workgroup of that rank
    remote_store    value, offsets, rank, [mask]            likewise
    cluster_barrier                             all threads of the cluster that have not ended meet, and their
                                                accesses to its workgroups' memory are ordered. For others
                                                a memory is there from the first such barrier to the last
    cluster_begin                               this workgroup's memory and signals are there for others; by
                                                all threads, in a kernel without cluster_barrier
    cluster_begun                               until those of all workgroups are; by any threads
    remote_send     value, offsets, rank, signal            attr: `Access` as above; asynchronous: lands when
                                                the phase of that workgroup's signal, which counts the
                                                bytes, ends

Transactions (Hopper): barriers in workgroup memory that count arrivals and bytes
    signal_init     barrier                     attr: `Signal`; by one thread, before a barrier of all
    signal_expect   barrier                     attr: bytes; arrives and adds them to what must come
    signal_arrive   barrier
    signal_wait     barrier, parity             until the phase of this parity has ended
    bulk_load       to offset, coordinates..., barrier   attr: `Bulk`; by one thread
    bulk_store      from offset, coordinates...          attr: `Bulk`; by one thread
    bulk_commit, bulk_wait                      as for copies; attr of the wait: `BulkWait`
    fence_async                                 what this thread wrote to workgroup memory becomes visible
                                                to bulk copies and asynchronous matrix operations
    group_fence, group_commit, group_wait       order asynchronous matrix operations (four warps together)
    group_mma       a, b, c                     attr: `GroupMatrix`; a, b: registers, or where in a
                                                buffer, in chunks of 16 bytes
    kernel_wait                                 until the kernel before in the stream has ended, where this
                                                one began before that; the next one may begin
    registers       attr: (how many each thread of this role may hold, whether that is an increase)

Structure (each has blocks)
    loop            start, stop, step, inits... block (counter, carried...) -> carried...; uniform bounds.
                                                attr: None, or the number of a uniform carried integer: there
                                                is no further turn once it is 0
    branch          mask                        two blocks () -> values...; uniform in the workgroup or
                                                role, or attr: `APART`, and nothing inside is between threads
    when            mask                        one block, no results, run by the threads whose mask is set
    roles           attr: a tuple of `Role`     one block each, run at the same time by different warps
    result          loop or branch              attr: which of its values
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gizml_tile.dtypes import DType
from gizml_tile.errors import Place
from gizml_tile.layout import Linear
from gizml_tile.nodes import Tensor
from gizml_tile.target import Target

# Each thread goes its own way in a branch.
APART = "apart"
GLOBAL = "global"
WORKGROUP = "workgroup"


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a launch passes: a tensor's ``"pointer"``, ``"size"`` or ``"stride"`` (in elements) along an
    axis, a ``"scalar"``, or the ``"grid"`` size along an axis."""

    kind: str
    number: int = 0
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of workgroup memory: elements of a type, from a byte offset on.

    Buffers that are never live at the same time may share bytes.
    """

    name: str
    dtype: DType
    elements: int
    offset: int = 0

    @property
    def bytes(self) -> int:
        """The bytes it takes."""
        return self.elements * self.dtype.bytes


@dataclass(frozen=True, slots=True)
class Access:
    """Vector accesses of one thread to a tensor or a buffer.

    ``memory`` is the number of the tensor (global) or buffer (workgroup). Access ``n`` moves ``width``
    neighbouring elements from offset register ``places[n][0]`` plus the constant ``places[n][1]``; the
    value's registers are the accesses', in order. A mask has one register for all or one for each access.
    ``combine`` names what an atomic access does.
    """

    space: str
    memory: int
    width: int
    places: tuple[tuple[int, int], ...]
    pad: float | int | bool = 0
    combine: str = ""


@dataclass(frozen=True, slots=True)
class MatrixAccess:
    """8x8 matrices of 16-bit elements between workgroup memory and the fragments of a warp.

    Each access moves ``matrices`` (1, 2 or 4) of them: lane ``l`` gives the address of row ``l % 8`` of
    matrix ``l // 8`` (lanes past the last matrix give any valid address), and holds elements
    ``2 * (l % 4)`` and one more of row ``l // 4`` of each matrix in turn. ``transposed`` exchanges the
    elements' row and column on the way. A load that is not transposed takes elements of other sizes too:
    rows of 16 bytes, of which a lane holds 4. Of bytes a transposed load moves pairs: lane ``l`` holds pair
    ``l // 4`` of row ``2 * (l % 4)``, then that of the next row.
    """

    memory: int
    matrices: int
    transposed: bool
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """Asynchronous copies of ``width`` elements from a tensor to a buffer, as `Access` says for both ends."""

    tensor: int
    buffer: int
    width: int
    to_places: tuple[tuple[int, int], ...]
    from_places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A meeting of ``threads`` threads at one of 16 numbered barriers.

    Number 0 with all threads is the workgroup's. With ``arrive`` the thread does not wait. With ``each``
    every ``threads`` threads have a barrier of their own, in the order of their warps from ``number`` on.
    In a ``ring`` so many groups of half of ``threads`` take turns: each waits at a barrier of its own, and
    arrives at that of the group after it.
    """

    number: int
    threads: int
    arrive: bool = False
    each: bool = False
    ring: int = 0


@dataclass(frozen=True, slots=True)
class Atom:
    """One instruction of a matrix unit: ``c[m, n] + a[m, k] @ b[k, n]``.

    ``a``, ``b`` and ``c`` say which element each register of each lane of a warp holds (inputs ``register``
    and ``lane``). Where lanes hold the same elements of an operand, all of them must have them. ``needs``
    names the ability that a target must have. The unit does not look at the ``ignored_bits`` lowest bits of
    operands, and its sums keep about ``sum_bits`` bits. ``turned`` tells that the hardware's instruction is
    given b and a, as the columns that it calls a's rows, and makes the transposed result.
    """

    name: str
    m: int
    n: int
    k: int
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    a: Linear
    b: Linear
    c: Linear
    needs: str
    ignored_bits: int = 0
    sum_bits: int = 24
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """A block of ``m`` x ``n`` atoms and ``k`` steps.

    Registers are ordered: of a by (m, k, the fragment's own), of b by (n, k, own), of c by (m, n, own).
    """

    atom: Atom
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Signal:
    """A transaction barrier's number of arrivals that end a phase."""

    arrivals: int


@dataclass(frozen=True, slots=True)
class Bulk:
    """A copy of a box between a tensor and a buffer by the copy engine.

    ``box`` has the elements along each of the tensor's axes, the last contiguous, or the one before it if
    ``turned``. Coordinates are the box's first element, an I32 for each axis of the tensor; what lies
    outside the tensor reads as zeros and is not written. That of the contiguous axis is a multiple of 16
    bytes, and those of a store are not negative: an H200 stops at others with an illegal instruction.
    ``swizzle`` is the span in bytes of the XOR pattern of 16-byte chunks: 0, 32, 64, 128. An F32 that is
    ``rounded`` on its way becomes the nearest TF32.
    """

    tensor: int
    buffer: int
    box: tuple[int, ...]
    swizzle: int
    turned: bool = False
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class BulkWait:
    """How many newest groups of bulk stores may be unfinished; ``reading`` only their sources matter."""

    groups: int
    reading: bool


@dataclass(frozen=True, slots=True)
class Operand:
    """How an asynchronous matrix operation finds an operand in workgroup memory.

    ``transposed`` tells that the tile's rows (of a: m; of b: k) are not the fast axis that the unit wants;
    ``leading`` and ``stride`` are the byte distances of the descriptor, ``swizzle`` its span.
    """

    buffer: int
    swizzle: int
    leading: int
    stride: int
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class GroupMatrix:
    """An asynchronous product of 64 x ``n`` by four warps, ``k`` elements deep, into registers of c.

    ``dtypes`` are those of a and b, of equal size.
    ``a`` is None where a is in registers. ``fresh`` starts from zero instead of c; the sums of another such
    product may then be c, which nothing reads any more. With ``m`` there are so many times 64 rows, of which
    the first 64 have the first registers of c, and of a.
    """

    n: int
    k: int
    dtypes: tuple[DType, DType]
    a: Operand | None
    b: Operand
    fresh: bool = False
    m: int = 1


@dataclass(frozen=True, slots=True)
class Role:
    """Warps of a workgroup that run a block of their own.

    They are ``groups`` that meet where their barriers say, and else go on by themselves.
    """

    name: str
    first_warp: int
    warps: int
    groups: int = 1


Number = float | int | bool
Attr = (
    None
    | str
    | Number
    | tuple[Number, ...]
    | Parameter
    | Access
    | MatrixAccess
    | Copy
    | Barrier
    | Matrix
    | Signal
    | Bulk
    | BulkWait
    | GroupMatrix
    | tuple[Role, ...]
)


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One operation and its value: ``count`` registers of ``dtype``, none where ``dtype`` is None.

    Instructions compare by identity; two kernels compare by their text.
    """

    op: str
    args: tuple[Instruction, ...]
    attr: Attr
    dtype: DType | None
    count: int
    place: Place | None = None
    blocks: tuple[Block, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype} x {self.count}>"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Instructions in order, what they take and what they give."""

    params: tuple[Instruction, ...]
    instructions: tuple[Instruction, ...]
    results: tuple[Instruction, ...]

    def walk(self) -> Iterator[Instruction]:
        """Every instruction of this block and of the blocks inside, in program order."""
        for instruction in self.instructions:
            yield instruction
            for block in instruction.blocks:
                yield from block.walk()


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel for one target.

    ``axes`` is how many axes of the hardware's grid it uses: 1, or those of the user's grid. ``signals``
    is the number of transaction barriers, which lie after the buffers, 8 bytes each. The workgroups of a
    ``persistent`` kernel run any number of programs. With a ``cluster`` so many neighbouring workgroups run
    each program together; and ``together`` neighbours along axis ``along`` of the user's grid, where they are
    several, run in one workgroup. Where ``may_alias`` is not set, no two tensors of which
    one is stored to have an element in common.
    """

    name: str
    target: Target
    tensors: tuple[Tensor, ...]
    parameters: tuple[Parameter, ...]
    buffers: tuple[Buffer, ...]
    threads: int
    body: Block
    axes: int = 1
    signals: int = 0
    resident: int = 1
    persistent: bool = False
    may_alias: bool = True
    cluster: int = 1
    together: int = 1
    along: int = 0

    def needed(self, grid: Sequence[int]) -> int:
        """The workgroups for the programs of a grid, a cluster counting as one."""
        sizes = [-(-size // self.together) if axis == self.along else size for axis, size in enumerate(grid)]
        return math.prod(sizes)

    @property
    def workgroup_memory(self) -> int:
        """Bytes of workgroup memory, the transaction barriers included."""
        end = max((buffer.offset + buffer.bytes for buffer in self.buffers), default=0)
        return (end + 7) // 8 * 8 + 8 * self.signals


LEAVES = frozenset("constant param thread lane warp workgroup workgroups rank parameter".split())
UNARY = frozenset("neg abs sqrt not popcount clz exp2 log2 reciprocal rsqrt tanh sin cos".split())
BINARY = frozenset("add sub mul div rem high min max minimum maximum and or xor shl shr ushr".split())
COMPARISONS = frozenset("lt le gt ge eq ne".split())
ELEMENTWISE = UNARY | BINARY | COMPARISONS | frozenset("fma select convert bitcast again".split())
APPROXIMATE = frozenset("exp2 log2 reciprocal rsqrt tanh sin cos".split())
EFFECTS = frozenset(
    "store atomic update matrix_store copy copy_commit copy_wait barrier warp_barrier signal_init "
    "signal_expect signal_arrive signal_wait bulk_load bulk_store bulk_commit bulk_wait fence_async "
    "kernel_wait group_fence group_commit group_wait registers remote_store remote_send cluster_barrier "
    "cluster_begin cluster_begun when roles".split()
)
# Their value depends on memory, or on other threads, at the place where they stand.
ORDERED = EFFECTS | frozenset("load matrix_load remote_load shuffle mma group_mma".split())
STRUCTURED = frozenset("loop branch when roles".split())
