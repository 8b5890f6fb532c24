"""Examples of arguments, where a command leaves out what a kernel needs: made from the kernel's own text."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from gizml_tile.kernel import Kernel

# What an example of a call gives: a vector, tensors of more dimensions, numbers, constants.
_VECTOR, _MATRIX, _FURTHER = "1024", "64,64", "4,"
_NUMBER, _CONSTANT = "1", "64"


def examples(kernel: Kernel, names: list[str]) -> Iterator[str]:
    """Options that give parameters a value of the kind that the kernel takes there."""
    ranks = _ranks(kernel)
    for name in names:
        if name in kernel._signature.constants:
            yield f"-c {name}={_CONSTANT}"
        else:
            rank = ranks.get(name)
            sizes = _VECTOR if rank == 1 else _FURTHER * ((rank or 2) - 2) + _MATRIX
            yield f"-a {name}={_NUMBER if rank is None else f'f32[{sizes}]'}"


def _ranks(kernel: Kernel) -> dict[str, int]:
    """How many coordinates a kernel's text gives the blocks that it reads and writes of its parameters."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.__wrapped__)))
    except (OSError, TypeError, SyntaxError):
        return {}
    ranks: dict[str, int] = {}
    views: dict[str, str] = {}
    nodes = list(ast.walk(tree))
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=view)], value=value) if name := _viewed(value):
                views[view] = name
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = zip(targets, map(_viewed, values), strict=False)
                views |= {each.id: name for each, name in pairs if name and isinstance(each, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Subscript):
            of = node.value
            name = views.get(of.id, "") if isinstance(of, ast.Name) else _viewed(of)
            ranks[name] = _length(node.slice)
    # What is reached otherwise has the dimensions of its blocks at least.
    for node in nodes:
        match node:
            case ast.Call(args=[_, block, *_]) if name := _viewed(node):
                ranks.setdefault(name, _length(block))
            case ast.Attribute(value=ast.Name(id=name), attr="shape" | "dtype" | "ndim"):
                ranks.setdefault(name, 1)
    return ranks


def _length(node: ast.expr) -> int:
    """How many items a list or tuple has; of anything else it is one."""
    return len(node.elts) if isinstance(node, ast.List | ast.Tuple) else 1


def _viewed(node: ast.expr) -> str:
    """The tensor of ``p.read(tensor, block)``; empty for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(attr="read" | "write"), args=[ast.Name(id=name), *_]):
            return name
    return ""
