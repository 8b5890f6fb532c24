"""A random program as a decorated kernel: operators, subscripts, loops and branches as people write them."""

from __future__ import annotations

import tells
from batches import axis_in_text
from loops_and_branches import WHILES
from programs import LOOPS, STORES, TELLS, Block, Op, Program
from render import expression, hints, number, operand, stored

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


def _block(block: Block, indent: str, carried: str = "") -> list[str]:
    return [line for op in block.ops for line in _op(op, indent, carried)]


def _op(op: Op, indent: str, carried: str) -> list[str]:
    """The statements of an operation in a loop that carries some names."""
    if op.name in LOOPS:
        return _loop(op, indent)
    if op.name == "cond":
        return _branch(op, indent, carried)
    if op.name in ("break", "continue"):
        gives = f"{indent}    {carried} = {', '.join(op.args[1:])}"
        return [f"{indent}if {op.args[0]}:", gives, f"{indent}    {op.name}"]
    if op.name in TELLS:
        return [indent + tells.written(op)]
    if op.name == "return":
        return [f"{indent}if {op.args[0]}:", f"{indent}    return"]
    args = [operand(arg) for arg in op.args]
    if op.name in STORES:
        if op.name == "put" and op.attr[1:] == ("at", False):
            return [f"{indent}{op.attr[0]}[{', '.join(args[1:])}] = {args[0]}"]
        return [indent + stored(op, args)]
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
        case "round" if not kind.batch:
            return f"round({args[0]})"
        case "pow" if not op.attr:
            return f"{args[0]} ** {args[1]}"
        case "not_":
            return f"~{args[0]}"
        case "maximum" | "minimum":
            return f"{op.name[:3]}({args[0]}, {args[1]})"
        case "select":
            return f"{args[1]} if {args[0]} else {args[2]}"
        case "transpose":
            return f"{args[0]}.T"
    return expression(op.name, args, axis_in_text(op.name, op.attr) if kind.batch else op.attr)


def _loop(op: Op, indent: str) -> list[str]:
    first, second, *inits = (operand(arg) for arg in op.args)
    (body,) = op.regions
    params = body.params[op.name != "while" :]
    names, more = ", ".join(params), indent + "    "
    lines = [f"{indent}{names} = {', '.join(inits)}"]
    if op.name == "while":
        form = WHILES[op.attr]
        asked = form.text.format(n=params[0], limit=first, other=second)
        lines.append(f"{indent}while {'True' if op.attr == 'true' else asked}:")
        if op.attr == "true":
            lines += [f"{more}if not {asked}:", f"{more}    break"]
    else:
        bounds = second if (first, op.attr) == ("0", 1) else f"{first}, {second}"
        bounds += "" if op.attr == 1 else f", {op.attr}"
        lines.append(f"{indent}for {body.params[0]} in range({bounds}):")
    lines += _block(body, more, names)
    return [*lines, f"{more}{names} = {', '.join(body.gives)}", f"{indent}{', '.join(op.results)} = {names}"]


def _branch(op: Op, indent: str, carried: str) -> list[str]:
    before = [f"{indent}{', '.join(op.results)} = {', '.join(map(str, op.args[1:]))}"]
    lines = before if len(op.args) > 1 else []
    for head, region in zip((f"if {op.args[0]}:", "else:"), op.regions, strict=True):
        lines.append(indent + head)
        lines += _block(region, indent + "    ", carried)
        lines.append(f"{indent}    {', '.join(op.results)} = {', '.join(region.gives)}")
    return lines
