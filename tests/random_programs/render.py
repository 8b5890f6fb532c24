"""A random program as the text of an explicit program, which is what runs and what a report prints."""

from __future__ import annotations

from collections.abc import Callable

import addressing
import along
import approximate
import nibbles
import packed
import tells
from batches import axis_in_text
from loops_and_branches import WHILES
from programs import EXITS, LOOPS, STORES, TELLS, Arg, Literal, Op, Program, ends_program, has, leaves
from shapes import MOVES, text

from gizml_tile.dtypes import DType


def render(program: Program) -> str:
    """The body as Python source; its tensors are globals of their names."""
    lines = ["def body(p):", *hints(program)]
    for view in program.views:
        method = "write" if view.write else "read"
        pad = "" if view.pad is None else f", pad={number(view.pad)}"
        lines.append(f"    {view.name} = p.{method}({view.tensor}, {list(view.block)}{pad})")
    # What follows a way out of the program is a function of its own.
    end = "return None" if has(program.body, frozenset({"return"})) else ""
    lines += _block(program.body.ops, "    ", end, lambda op: "None")
    return "\n".join(lines) + "\n"


def hints(program: Program) -> list[str]:
    """The lines that tell a GPU how many warps and stages to take, and which variants."""
    counts = {"warps": program.warps, "stages": program.stages}
    lines = [f"    p.{name}({count})" for name, count in counts.items() if count]
    lines += ["    p.debug()"] * program.debug + ["    p.approx()"] * program.approx
    return lines + [f"    p.variant({operation!r}, {name!r})" for operation, name in program.variants]


def number(value: object) -> str:
    text = repr(value)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text


def operand(arg: Arg) -> str:
    return number(arg.value) if isinstance(arg, Literal) else arg


def stored(op: Op, args: list[str]) -> str:
    """The call of a store."""
    if op.name != "put":
        return addressing.written(op.name, args, op.attr)
    view, mode, masked = op.attr
    mask = f", mask={args.pop()}" if masked else ""
    method = "put" if mode == "at" else "put_window"
    return f"{view}.{method}({args[0]}, [{', '.join(args[1:])}]{mask})"


def _block(ops: tuple[Op, ...], indent: str, end: str, leave: Callable[[Op], str]) -> list[str]:
    """Operations and the statement that ends them; what follows a way out is the other arm of a branch.

    ``leave`` is what the function around them returns where it is left by an operation.
    """
    lines: list[str] = []
    for number, op in enumerate(ops):
        if op.name == "cond" and leaves(op):
            # What follows goes on in the arms.
            result = op.results[0]
            lines.append(f"{indent}def after_{result}({', '.join(op.results)}):")
            lines += _block(ops[number + 1 :], indent + "    ", end or "return None", leave)
            for arm, region in zip(("then", "otherwise"), op.regions, strict=True):
                lines.append(f"{indent}def {arm}_{result}():")
                goes_on = f"return after_{result}({', '.join(region.gives)})"
                lines += _block(region.ops, indent + "    ", goes_on, leave)
            return [*lines, f"{indent}return p.cond({op.args[0]}, then_{result}, otherwise_{result})"]
        lines += [] if op.name in EXITS else _op(op, indent)
        if op.name in EXITS:
            condition, gives, after = op.args[0], leave(op), f"after_{op.args[0]}"
        elif op.name in LOOPS and ends_program(op):
            condition = f"left_{op.results[0]}.eq(2)"
            gives, after = leave(Op("return", (), (), ())), f"after_{op.results[0]}"
        else:
            continue
        rest = _block(ops[number + 1 :], indent + "    ", end, leave)
        call = f"{indent}return p.cond({condition}, lambda: {gives}, {after})"
        return [*lines, f"{indent}def {after}():", *rest, call]
    return [*lines, *[indent + end] * bool(end)]


def _op(op: Op, indent: str) -> list[str]:
    if op.name in LOOPS:
        return _loop(op, indent)
    if op.name == "cond":
        return _cond(op, indent)
    if op.name in TELLS:
        return [indent + tells.written(op)]
    args = [operand(arg) for arg in op.args]
    if op.name in STORES:
        return [indent + stored(op, args)]
    attr = axis_in_text(op.name, op.attr) if op.types[0].batch else op.attr
    return [f"{indent}{op.results[0]} = {expression(op.name, args, attr)}"]


def expression(name: str, args: list[str], attr: object) -> str:
    if name in addressing.NAMES:
        return addressing.written(name, args, attr)
    if name == "read":
        view, mode = attr
        return f"{view}.{mode}([{', '.join(args)}])"
    if name in ("dim", "blocks"):
        return f"{attr[0]}.{name}({attr[1]})"
    if name == "chance":
        return f"{args[0]}.to(tile.{attr.name}, random={args[1]})"
    if name == "random":
        seed, shape, kind = attr
        return f"p.random({seed}, {args[0]}, {list(shape)}, {kind!r})"
    if name in ("id", "count", "int", "arg"):
        return f"p.{name}({number(attr)})"
    if name == "k":
        value, dtype = attr
        return f"p.k({number(value)}, tile.{dtype.name})"
    if name in ("full", "zeros", "iota"):
        *values, dtype = attr
        shown = [str(list(value)) if isinstance(value, tuple) else number(value) for value in values]
        return f"p.{name}({', '.join(shown)}, tile.{dtype.name})"
    if name == "tile":
        return f"{args[0]}[{attr}]"
    if name in along.NAMES:
        return along.written(name, args, attr)
    if name in packed.NAMES:
        return f"{args[0]}.{name}({args[1]}, {attr})"
    if name in nibbles.NAMES:
        return nibbles.written(name, args[0], attr)
    if name in ("sum", "max", "min"):
        axis, *nan = attr if isinstance(attr, tuple) else (attr,)
        return f"{args[0]}.{name}({axis}{''.join(f', nan={each!r}' for each in nan)})"
    if name == "dot" and attr:
        return f"{args[0]}.dot({args[1]}, precision={attr!r})"
    if name == "mulhi" and attr:
        return f"{args[0]}.mulhi({args[1]}, unsigned=True)"
    if name in ("to", "value", "bitcast"):
        assert isinstance(attr, DType)
        return f"{args[0]}.{name}(tile.{attr.name})"
    if name in MOVES:
        return text(name, args, attr)
    option = ["approx=True"] * (name in approximate.NAMES and attr is True)
    return f"{args[0]}.{name}({', '.join([*args[1:], *option])})"


def _loop(op: Op, indent: str) -> list[str]:
    *bounds, inits = _parts(op)
    (body,) = op.regions
    params = body.params[op.name != "while" :]
    name, k, more = f"turn_{op.results[0]}", body.params[0], indent + "    "
    head = f"{indent}def {name}({k}, carried):"
    if op.name == "fold":
        lines = _block(body.ops, more, f"return {body.gives[0]}", lambda op: "")
        call = f"{op.results[0]} = p.fold({bounds[0]}, {bounds[1]}, {inits[0]}, {name}{_step(op)})"
        return [f"{indent}def {name}({k}, {params[0]}):", *lines, indent + call]
    # A flag tells whether the loop goes on (1), has been left (0) or ends the program (2).
    flag = any(leaves(each, frozenset({"break"})) for each in body.ops) or ends_program(op)
    left, first, going = (f"left_{op.results[0]}, ", "_, ", "1, ") if flag else ("", "", "")

    def leave(exit_: Op) -> str:
        gives = params if exit_.name == "return" else exit_.args[1:]
        state = {"continue": "1, ", "break": "0, ", "return": "2, "}[exit_.name] if flag else ""
        return f"({state}{', '.join(gives)},)"

    turn = [f"{more}({first}{', '.join(params)},) = carried"]
    turn += _block(body.ops, more, f"return ({going}{', '.join(body.gives)},)", leave)
    results, started = f"({left}{', '.join(op.results)},)", f"[{going}{', '.join(inits)}]"
    goes_on = "c[0].eq(1)" if flag else ""
    if op.name == "while":
        head = f"{indent}def {name}(carried):"
        asked = WHILES[op.attr].explicit.format(n=f"c[{int(flag)}]", limit=bounds[0], other=bounds[1])
        asked = f"{goes_on}.and_({asked})" if flag else asked
        call = f"{results} = p.while_({started}, lambda c: {asked}, {name})"
    else:
        asked = f", condition=lambda c: {goes_on}" if flag else ""
        call = f"{results} = p.loop({bounds[0]}, {bounds[1]}, {started}, {name}{_step(op)}{asked})"
    return [head, *turn, indent + call]


def _parts(op: Op) -> tuple[str, str, list[str]]:
    """The two bounds of a loop (of ``while`` what its condition asks), and what it starts with."""
    first, second, *inits = (operand(arg) for arg in op.args)
    return first, second, inits


def _step(op: Op) -> str:
    return "" if op.attr == 1 else f", step={op.attr}"


def _cond(op: Op, indent: str) -> list[str]:
    lines = []
    for arm, region in zip(("then", "otherwise"), op.regions, strict=True):
        lines.append(f"{indent}def {arm}_{op.results[0]}():")
        lines += _block(region.ops, indent + "    ", f"return {', '.join(region.gives)}", lambda op: "")
    results = ", ".join(op.results)
    lines.append(f"{indent}{results} = p.cond({op.args[0]}, then_{op.results[0]}, otherwise_{op.results[0]})")
    return lines


def reproduction(program: Program) -> str:
    """A script that runs the program alone."""
    lines = [
        "import sys",
        'sys.path.insert(0, "tests/random_programs")',
        "from programs import Axis, TensorSpec",
        "from tensors import build",
        "import gizml_tile as tile",
        "from gizml_tile.dtypes import DType",
        "",
    ]
    for tensor in sorted(program.tensors, key=lambda tensor: bool(tensor.alias)):
        if tensor.alias:
            lines.append(f"{tensor.name} = {tensor.alias}[:]")
            continue
        text = repr(tensor).replace(repr(tensor.dtype), f"DType.{tensor.dtype.name}")
        lines.append(f"{tensor.name} = build({text})[1]")
    lines += ["", render(program), f"tile.run({list(program.grid)}, body)"]
    for view in program.views:
        if view.write:
            lines.append(f"print({view.tensor})")
    return "\n".join(lines)
