"""A random program as the text of an explicit program, which is what runs and what a report prints."""

from __future__ import annotations

import addressing
import along
import nibbles
from programs import Arg, Block, Literal, Op, Program
from shapes import MOVES, text

from gizml_tile.dtypes import DType


def render(program: Program) -> str:
    """The body as Python source; its tensors are globals of their names."""
    lines = ["def body(p):", *hints(program)]
    for view in program.views:
        method = "write" if view.write else "read"
        pad = "" if view.pad is None else f", pad={number(view.pad)}"
        lines.append(f"    {view.name} = p.{method}({view.tensor}, {list(view.block)}{pad})")
    lines += _block(program.body, "    ")
    return "\n".join(lines) + "\n"


def hints(program: Program) -> list[str]:
    """The lines that tell a GPU how many warps and stages to take, and which variants."""
    counts = {"warps": program.warps, "stages": program.stages}
    lines = [f"    p.{name}({count})" for name, count in counts.items() if count]
    return lines + [f"    p.variant({operation!r}, {name!r})" for operation, name in program.variants]


def number(value: object) -> str:
    text = repr(value)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text


def operand(arg: Arg) -> str:
    return number(arg.value) if isinstance(arg, Literal) else arg


def _block(block: Block, indent: str) -> list[str]:
    lines: list[str] = []
    for op in block.ops:
        lines += _op(op, indent)
    return lines


def _op(op: Op, indent: str) -> list[str]:
    if op.name == "ending":
        return _ending(op, indent)
    if op.name in ("loop", "fold"):
        return _loop(op, indent)
    if op.name == "cond":
        return _cond(op, indent)
    args = [operand(arg) for arg in op.args]
    if op.name in addressing.STORES:
        return [indent + addressing.written(op.name, args, op.attr)]
    if op.name == "put":
        view, mode = op.attr
        method = "put" if mode == "at" else "put_window"
        return [f"{indent}{view}.{method}({args[0]}, [{', '.join(args[1:])}])"]
    return [f"{indent}{op.results[0]} = {expression(op.name, args, op.attr)}"]


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
    if name in ("id", "count", "int", "k", "arg"):
        return f"p.{name}({number(attr)})"
    if name in ("full", "zeros", "iota"):
        *values, dtype = attr
        shown = [str(list(value)) if isinstance(value, tuple) else number(value) for value in values]
        return f"p.{name}({', '.join(shown)}, tile.{dtype.name})"
    if name in along.NAMES:
        return along.written(name, args[0], attr)
    if name in nibbles.NAMES:
        return nibbles.written(name, args[0], attr)
    if name in ("sum", "max", "min"):
        return f"{args[0]}.{name}({attr})"
    if name == "dot" and attr:
        return f"{args[0]}.dot({args[1]}, precision={attr!r})"
    if name == "mulhi" and attr:
        return f"{args[0]}.mulhi({args[1]}, unsigned=True)"
    if name in ("to", "value", "bitcast"):
        assert isinstance(attr, DType)
        return f"{args[0]}.{name}(tile.{attr.name})"
    if name in MOVES:
        return text(name, args, attr)
    return f"{args[0]}.{name}({', '.join(args[1:])})"


def _loop(op: Op, indent: str) -> list[str]:
    start, stop, *inits = (operand(arg) for arg in op.args)
    (body,) = op.regions
    k, *params = body.params
    step = "" if op.attr == 1 else f", step={op.attr}"
    name = f"turn_{op.results[0]}"
    if op.name == "fold":
        head, give = f"{indent}def {name}({k}, {params[0]}):", body.gives[0]
        call = f"{op.results[0]} = p.fold({start}, {stop}, {inits[0]}, {name}{step})"
        opening: list[str] = []
    else:
        head, give = f"{indent}def {name}({k}, carried):", f"[{', '.join(body.gives)}]"
        opening = [f"{indent}    ({', '.join(params)},) = carried"]
        call = f"({', '.join(op.results)},) = p.loop({start}, {stop}, [{', '.join(inits)}], {name}{step})"
    return [head, *opening, *_block(body, indent + "    "), f"{indent}    return {give}", indent + call]


def _ending(op: Op, indent: str) -> list[str]:
    """A loop with a flag, which a branch around a turn's work sets."""
    start, stop, last, *inits = (operand(arg) for arg in op.args)
    (body,) = op.regions
    k, *params = body.params
    step = "" if op.attr == 1 else f", step={op.attr}"
    name, more = op.results[0], indent + "    "
    last = f"p.int({last})" if last.lstrip("-").isdigit() else last
    return [
        f"{indent}def turn_{name}({k}, carried):",
        f"{more}(_, {', '.join(params)}) = carried",
        f"{more}def stay_{name}():",
        *_block(body, more + "    "),
        f"{more}    return (1, {', '.join(body.gives)})",
        f"{more}return p.cond({k}.mul({k}).gt({last}), lambda: (0, {', '.join(params)}), stay_{name})",
        f"{indent}(_, {', '.join(op.results)}) = p.loop("
        f"{start}, {stop}, [1, {', '.join(inits)}], turn_{name}{step}, condition=lambda c: c[0].ne(0))",
    ]


def _cond(op: Op, indent: str) -> list[str]:
    lines = []
    for arm, region in zip(("then", "otherwise"), op.regions, strict=True):
        lines.append(f"{indent}def {arm}_{op.results[0]}():")
        lines += _block(region, indent + "    ")
        lines.append(f"{indent}    return {', '.join(region.gives)}")
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
