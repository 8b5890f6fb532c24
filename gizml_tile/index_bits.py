"""How large an index may be, told by how it is made: whether block numbers can be multiplied by sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gizml_tile.nodes import Node, TileProgram

# Indices and their products with sizes have so many bits beside their sign.
MOST_BITS = 63
# More programs, longer tensors and more turns of a loop than any device has time for.
_PROGRAM_BITS, _LENGTH_BITS = 31, 48
# Operations of an index that are looked at; of longer ones nothing is known.
_PATIENCE = 64

Starts = Mapping[Node, tuple[Node, int]]


@lru_cache(maxsize=256)
def starts(program: TileProgram) -> Starts:
    """What each loop of a program counts from and in which steps, by the index that counts.

    Steps that run time tells count as 1: in so many turns none of them leads farther than a tensor is long.
    """
    loops = [node for node in program.body.walk() if node.op == "loop"]
    return {node.regions[0].params[0]: (node.args[0], _known_step(node.args[2])) for node in loops}


def _known_step(step: Node) -> int:
    return step.attr if step.op == "index" and isinstance(step.attr, int) else 1


def index_bits(index: Node, begins: Starts | None = None) -> int:
    """How many bits an index has at most beside its sign; 64 where it may be anything.

    Loops count from ``begins``, or where that is not known yet from a number that is not larger than theirs.
    """
    order: list[Node] = [index]
    for node in order:
        if len(order) > _PATIENCE:
            return MOST_BITS + 1
        if node.op == "param" and begins is not None and node in begins:
            order.append(begins[node][0])
        elif node.op not in ("element", "result"):
            order += [arg for arg in node.args if arg.is_index]
    known: dict[Node, int] = {}
    for node in reversed(order):
        if node.op == "param" and node.attr == 0 and (begins is None or node in begins):
            begin, step = (None, 1) if begins is None else begins[node]
            start = 0 if begin is None else known[begin]
            known[node] = max(start, _LENGTH_BITS + step.bit_length() - 1) + 1
        else:
            known[node] = _bits(node, [known[arg] for arg in node.args if arg in known])
        known[node] = min(known[node], MOST_BITS + 1)
    return known[index]


def farthest(index: Node, size: int, begins: Starts | None = None) -> int | None:
    """How far from 0 a block number may count where ``size`` times it might wrap; None where it cannot.

    A block that begins further outside begins as far outside as 64 bits can tell.
    """
    bits = (size - 1).bit_length()
    return None if index_bits(index, begins) + bits <= MOST_BITS else 1 << MOST_BITS - 1 - bits


def _bits(node: Node, operands: list[int]) -> int:
    match node.op:
        case "index":
            assert isinstance(node.attr, int)
            return node.attr.bit_length()
        case "id" | "count":
            return _PROGRAM_BITS
        case "size":
            return _LENGTH_BITS
        case "add" | "sub":
            return max(operands) + 1
        case "mul":
            return sum(operands)
        case "neg" | "abs" | "minimum" | "maximum" | "select":
            return max(operands)
        case "div" | "floordiv" | "rem":
            return operands[0]
        case "floormod":
            return operands[1]
        case _:
            return MOST_BITS + 1
