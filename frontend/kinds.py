"""What a name or an expression holds, as far as the source tells, and what each method gives."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """What a value is while the program is traced."""

    PROGRAM = "program"
    IN = "input"
    OUT = "output"
    TILE = "tile"
    MASK = "mask"
    # A comparison of indices, which an `if` may take.
    UNIFORM = "uniform mask"
    INDEX = "index"
    TENSOR = "tensor"
    SHAPE = "shape"
    # A host value whose parts are host values too.
    CONSTANT = "constant"
    HOST = "host value"
    # An instance of a class of the person's, whose methods are.
    OBJECT = "object"
    UNKNOWN = "unknown"

    @property
    def is_device(self) -> bool:
        """Whether the value exists only at run time."""
        return self in _DEVICE

    @property
    def is_tile(self) -> bool:
        """Whether the value is a tile or a mask."""
        return self in _TILES

    @property
    def is_host(self) -> bool:
        """Whether Python's own ``and``, ``if`` and ``not`` are right for the value."""
        return self in _HOSTS


_TILES = frozenset({Kind.TILE, Kind.MASK, Kind.UNIFORM})
_DEVICE = _TILES | {Kind.INDEX}
_HOSTS = frozenset(
    {
        Kind.CONSTANT,
        Kind.HOST,
        Kind.OBJECT,
        Kind.PROGRAM,
        Kind.IN,
        Kind.OUT,
        Kind.TENSOR,
        Kind.SHAPE,
    }
)
TRACED = _DEVICE | {Kind.PROGRAM, Kind.IN, Kind.OUT}


def join(a: Kind | None, b: Kind | None) -> Kind:
    """What a name holds after two ways meet; None stands for a way on which it is not bound."""
    if a is b or b is None:
        return a or Kind.UNKNOWN
    if a is None:
        return b
    if a.is_tile and b.is_tile:
        return Kind.TILE
    if {a, b} == {Kind.CONSTANT, Kind.HOST}:
        return Kind.HOST
    return Kind.UNKNOWN


def lifted(kind: Kind) -> Kind:
    """What a carried value is inside a loop: numbers become an index or a tile."""
    if kind is Kind.UNIFORM:
        return Kind.TILE
    return kind if kind.is_device else Kind.UNKNOWN


COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
ARITHMETIC = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floordiv",
    "%": "floormod",
    "@": "dot",
}
BITS = {"&": "and_", "|": "or_", "^": "ne"}

_PROGRAM_GIVES = {
    "id": Kind.INDEX,
    "count": Kind.INDEX,
    "int": Kind.INDEX,
    "k": Kind.TILE,
    "full": Kind.TILE,
    "zeros": Kind.TILE,
    "iota": Kind.TILE,
    "random": Kind.TILE,
    "read": Kind.IN,
    "write": Kind.OUT,
}
_VIEW_GIVES = {
    "at": Kind.TILE,
    "window": Kind.TILE,
    "gather": Kind.TILE,
    "index": Kind.INDEX,
    "dim": Kind.INDEX,
    "blocks": Kind.INDEX,
}
_INDEX_METHODS = frozenset(
    "k add sub mul div rem floordiv floormod minimum maximum neg abs pow".split()
)
_TILE_METHODS = frozenset(
    "k add sub mul div rem floordiv floormod maximum minimum neg abs exp exp2 log tanh sigmoid sqrt "
    "rsqrt gelu gelu_erf relu floor pow to sum dot transpose xor shl shr prod argmax argmin cumsum cumprod "
    "cummax cummin".split()
)
_FUNCTIONS = frozenset(
    "log2 log1p expm1 sin cos erf silu softplus reciprocal ceil trunc round sign clamp mod fma copysign "
    "popcount clz mulhi bitcast unpack4 pack4 scale_blocks".split()
)
_ASKS = frozenset({"isnan", "isinf", "isfinite"})
_KEEPS_MASK = frozenset({"transpose", "max", "min", "not_", "any", "all"})
_MOVES = frozenset("reshape broadcast_to concat interleave flip".split())
_HALVES = frozenset({"split", "deinterleave"})
METHODS = (
    frozenset(_PROGRAM_GIVES)
    | frozenset(_VIEW_GIVES)
    | _INDEX_METHODS
    | _TILE_METHODS
    | _FUNCTIONS
    | _ASKS
    | _KEEPS_MASK
    | _MOVES
    | _HALVES
    | frozenset(COMPARISONS.values())
    | frozenset(
        "and_ or_ select value put put_window scatter scatter_add scatter_max scatter_min loop fold while_ "
        "cond arg print check debug warps stages variant approx reduce associative_scan sort topk "
        "histogram".split()
    )
)


def method(receiver: Kind, name: str, arguments: list[Kind]) -> Kind:
    """What a method of a value gives."""
    first = arguments[0] if arguments else Kind.UNKNOWN
    match receiver:
        case Kind.PROGRAM:
            if name == "fold" and len(arguments) > 2:
                return lifted(arguments[2])
            return _PROGRAM_GIVES.get(name, Kind.UNKNOWN)
        case Kind.IN | Kind.OUT:
            return _VIEW_GIVES.get(name, Kind.UNKNOWN)
        case Kind.INDEX if name in _INDEX_METHODS:
            return (
                Kind.INDEX
                if first is Kind.INDEX or first.is_host or not arguments
                else Kind.UNKNOWN
            )
        case Kind.INDEX if name in COMPARISONS.values():
            return comparison(receiver, first)
        case Kind.INDEX if name == "value":
            return Kind.TILE
        case Kind.TILE | Kind.MASK | Kind.UNIFORM:
            return _tile_method(receiver, name, arguments)
    return Kind.UNKNOWN


def _tile_method(receiver: Kind, name: str, arguments: list[Kind]) -> Kind:
    first = arguments[0] if arguments else Kind.UNKNOWN
    if name in COMPARISONS.values():
        return Kind.MASK if receiver is not Kind.UNIFORM else Kind.TILE
    if name in ("and_", "or_"):
        return logic(receiver, first)
    if name in _KEEPS_MASK:
        return receiver
    if name in _ASKS:
        return Kind.MASK
    if name in _FUNCTIONS:
        return Kind.TILE
    if name in _MOVES:
        return moved(receiver)
    if name == "select" and len(arguments) == 2:
        return chosen(*arguments)
    return Kind.TILE if name in _TILE_METHODS else Kind.UNKNOWN


def moved(receiver: Kind) -> Kind:
    """What elements of a tile in other places are, which may be more than one."""
    return Kind.TILE if receiver is Kind.UNIFORM else receiver


def comparison(left: Kind, right: Kind) -> Kind:
    """What ``left < right`` gives."""
    if left.is_tile or right.is_tile:
        # Masks of index comparisons stay fit for a branch under == and !=.
        return Kind.TILE if Kind.UNIFORM in (left, right) else Kind.MASK
    if Kind.INDEX in (left, right) and all(
        each is Kind.INDEX or each.is_host for each in (left, right)
    ):
        return Kind.UNIFORM
    return Kind.HOST if left.is_host and right.is_host else Kind.UNKNOWN


def logic(left: Kind, right: Kind) -> Kind:
    """What ``and`` and ``or`` of two values give."""
    if left is right and left in (Kind.MASK, Kind.UNIFORM):
        return left
    if left is Kind.UNIFORM and right.is_host:
        return left
    if right is Kind.UNIFORM and left.is_host:
        return Kind.UNKNOWN  # the host value may be the answer
    if left.is_tile or right.is_tile:
        return Kind.MASK if Kind.MASK in (left, right) and not left.is_host else Kind.TILE
    return Kind.HOST if left.is_host and right.is_host else Kind.UNKNOWN


def chosen(yes: Kind, no: Kind) -> Kind:
    """What a choice between two values gives."""
    if yes is Kind.INDEX and no is Kind.INDEX:
        return Kind.INDEX
    if yes is no and yes in (Kind.MASK, Kind.UNIFORM):
        return Kind.MASK if yes is Kind.MASK else Kind.TILE
    return Kind.TILE if yes.is_tile or no.is_tile else Kind.UNKNOWN


def arithmetic(operator: str, left: Kind, right: Kind) -> Kind:
    """What a binary operator gives."""
    if operator in BITS and left is right and left in (Kind.MASK, Kind.UNIFORM):
        return left
    if left.is_tile or right.is_tile:
        return Kind.TILE
    if Kind.INDEX in (left, right) and all(
        each is Kind.INDEX or each.is_host for each in (left, right)
    ):
        return Kind.INDEX
    return Kind.HOST if left.is_host and right.is_host else Kind.UNKNOWN
