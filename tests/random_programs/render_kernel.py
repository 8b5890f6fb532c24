"""A random program as a decorated kernel: operators, subscripts, loops and branches as people write them."""

from __future__ import annotations

import addressing
from programs import Block, Op, Program
from render import expression, hints, number, operand

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "floormod": "%",
    "dot": "@",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
}


def render_kernel(program: Program) -> str:
    """The kernel as Python source; its tensors are its parameters in their order."""
    tensors = ", ".join(tensor.name for tensor in program.tensors)
    lines = ["@tile.kernel", f"def kernel(p, {tensors}):", *hints(program)]
    for view in program.views:
        method = "write" if view.write else "read"
        pad = "" if view.pad is None else f", pad={number(view.pad)}"
        lines.append(f"    {view.name} = p.{method}({view.tensor}, {list(view.block)}{pad})")
    lines += _block(program.body, "    ")
    return "\n".join(lines) + "\n"


def _block(block: Block, indent: str) -> list[str]:
    return [line for op in block.ops for line in _op(op, indent)]


def _op(op: Op, indent: str) -> list[str]:
    if op.name in ("loop", "fold", "ending"):
        return _loop(op, indent)
    if op.name == "cond":
        return _branch(op, indent)
    args = [operand(arg) for arg in op.args]
    if op.name in addressing.STORES:
        return [indent + addressing.written(op.name, args, op.attr)]
    if op.name == "put":
        view, mode = op.attr
        place = ", ".join(args[1:])
        if mode == "at":
            return [f"{indent}{view}[{place}] = {args[0]}"]
        return [f"{indent}{view}.put_window({args[0]}, [{place}])"]
    return [f"{indent}{op.results[0]} = {_written(op, args)}"]


def _written(op: Op, args: list[str]) -> str:
    kind = op.types[0]
    if op.name == "read" and op.attr[1] == "at":
        return f"{op.attr[0]}[{', '.join(args)}]"
    # The methods of indices round toward zero, as the operators do not.
    has_option = op.name == "dot" and op.attr
    if op.name in INFIX and not (kind.is_index and op.name == "div") and not has_option:
        return f"{args[0]} {INFIX[op.name]} {args[1]}"
    match op.name:
        case "neg":
            return f"-{args[0]}"
        case "abs":
            return f"abs({args[0]})"
        case "round":
            return f"round({args[0]})"
        case "pow":
            return f"{args[0]} ** {args[1]}"
        case "not_":
            return f"~{args[0]}"
        case "maximum" | "minimum":
            return f"{op.name[:3]}({args[0]}, {args[1]})"
        case "select":
            return f"{args[1]} if {args[0]} else {args[2]}"
        case "transpose":
            return f"{args[0]}.T"
    return expression(op.name, args, op.attr)


def _loop(op: Op, indent: str) -> list[str]:
    start, stop, *inits = (operand(arg) for arg in op.args)
    (body,) = op.regions
    k, *params = body.params
    leave: list[str] = []
    if op.name == "ending":
        leave = [f"{indent}    if {k} * {k} > {inits.pop(0)}:", f"{indent}        break"]
    bounds = stop if (start, op.attr) == ("0", 1) else f"{start}, {stop}"
    bounds += "" if op.attr == 1 else f", {op.attr}"
    names = ", ".join(params)
    return [
        f"{indent}{names} = {', '.join(inits)}",
        f"{indent}for {k} in range({bounds}):",
        *leave,
        *_block(body, indent + "    "),
        f"{indent}    {names} = {', '.join(body.gives)}",
        f"{indent}{', '.join(op.results)} = {names}",
    ]


def _branch(op: Op, indent: str) -> list[str]:
    lines = []
    for head, region in zip((f"if {op.args[0]}:", "else:"), op.regions, strict=True):
        lines.append(indent + head)
        lines += _block(region, indent + "    ")
        lines.append(f"{indent}    {', '.join(op.results)} = {', '.join(region.gives)}")
    return lines
