"""Adding to what is in memory, or keeping the larger or smaller: alone, or beside other threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gizml_tile.dtypes import F32, F64, DType, math_dtype
from gizml_tile.lowering.emit.cpu.access import Line
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function, Module
from gizml_tile.lowering.emit.cpu.scope import Scope
from gizml_tile.lowering.steps import run_axis
from gizml_tile.nodes import Elements, TileProgram, tensor_of

# Locks of a launch, each in a cache line of its own; a row's is told by the upper bits of a product.
_LOCKS, _LINE_BYTES, _SPREAD = 256, 64, 0x9E3779B97F4A7C15 - (1 << 64)
_OPERATIONS = {"add": "add", "max": "maximum", "min": "minimum"}


def combined(arithmetic: Arithmetic, combine: str, dtype: DType, old: str, value: str) -> str:
    """What elements become, of what they are and values that are rounded to their type."""
    return arithmetic.binary(_OPERATIONS[combine], math_dtype(dtype), old, value)


def rounded(arithmetic: Arithmetic, dtype: DType, value: str) -> str:
    """Values as a store to a type and a load give them."""
    if math_dtype(dtype) is dtype:
        return value
    return arithmetic.decode(dtype, arithmetic.encode(dtype, value))


def accumulator(scope: Scope, combine: str, dtype: DType, *, atomic: bool) -> str:
    """The name of a function of an element's address and a value, which changes the element."""
    module = scope.function.module
    name = f"{combine}_{dtype.text}_{'beside' if atomic else 'alone'}"
    if any(each.name == name for each in module.functions):
        return name
    parameters = [("ptr", "place"), (_register(scope, dtype), "value")]
    function = Function(module, name, parameters, linkage="internal")
    own = Scope(scope.unit, function)
    if atomic:
        _atomic(own, combine, dtype)
    else:
        arithmetic = own.arithmetic(1)
        kind = arithmetic.storage_type(dtype)
        old = arithmetic.decode(dtype, function.load(kind, "%place", dtype.bytes))
        new = combined(arithmetic, combine, dtype, old, "%value")
        function.store(kind, arithmetic.encode(dtype, new), "%place", dtype.bytes)
    function.ret()
    return name


def _register(scope: Scope, dtype: DType) -> str:
    return scope.arithmetic(1).type(math_dtype(dtype))


def _atomic(scope: Scope, combine: str, dtype: DType) -> None:
    function, arithmetic = scope.function, scope.arithmetic(1)
    kind = arithmetic.storage_type(dtype)
    if dtype.is_integer or (dtype in (F32, F64) and combine == "add"):
        operation = combine if dtype.is_integer else "fadd"
        if dtype.is_unsigned and combine != "add":
            operation = f"u{combine}"
        function.emit(f"atomicrmw {operation} ptr %place, {kind} %value monotonic, align {dtype.bytes}")
        return
    bits = f"i{dtype.bits}"
    first = function.emit(f"load atomic {bits}, ptr %place monotonic, align {dtype.bytes}")
    again, end = function.label(), function.label()
    before = function.block
    function.branch(again)
    function.start(again)
    seen, place = function.temp(), len(function.lines)
    old = arithmetic.decode(dtype, _cast(function, seen, bits, kind))
    new = arithmetic.encode(dtype, combined(arithmetic, combine, dtype, old, "%value"))
    swap = f"ptr %place, {bits} {seen}, {bits} {_cast(function, new, kind, bits)} monotonic monotonic"
    pair = function.emit(f"cmpxchg {swap}, align {dtype.bytes}")
    found = function.emit(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
    done = function.emit(f"extractvalue {{ {bits}, i1 }} {pair}, 1")
    phi = f"  {seen} = phi {bits} [{first}, %{before}], [{found}, %{function.block}]"
    function.lines.insert_all(place, [phi])
    function.branch_if(done, end, again)
    function.start(end)


def _cast(function: Function, value: str, source: str, target: str) -> str:
    return value if source == target else function.emit(f"bitcast {source} {value} to {target}")


def locks_rows(program: TileProgram) -> bool:
    """Whether rows that are combined with a tensor's are locked, instead of each element by itself.

    All such rows of a program must be of one tensor and lie along one axis of it, so that those which meet
    anywhere have their other coordinates in common, and so a lock.
    """
    nodes = [node for node in program.body.walk() if isinstance(node.attr, Elements) and node.attr.combine]
    rows = {(program.tensors[tensor_of(node)].name, run_axis(node, 1)) for node in nodes}
    wide = all(isinstance(node.attr, Elements) and node.attr.shape[1] > 1 for node in nodes)
    return len(rows) == 1 and wide and all(axis is not None for _, axis in rows)


def write_locks(function: Function) -> str:
    """The address of the locks of a launch, which its entry has, all open."""
    size = _LOCKS * _LINE_BYTES
    locks = function.emit(f"alloca [{size} x i8], align {_LINE_BYTES}")
    name = "llvm.memset.p0.i64"
    function.module.declare(name, f"void @{name}(ptr, i8, i64, i1 immarg)")
    function.call_void(name, f"ptr align {_LINE_BYTES} {locks}", "i8 0", f"i64 {size}", "i1 false")
    return locks


def is_alone(scope: Scope) -> str:
    """Whether one thread runs all programs of the launch."""
    return scope.function.compare("eq", scope.slot(scope.unit.arguments.threads), 1)


def row_lock(scope: Scope, line: Line) -> str:
    """The address of the lock of a row, which the address of the row's first element tells."""
    function = scope.function
    before = function.mul(line.block.columns.start, line.stride_bytes)
    row = function.sub(function.emit(f"ptrtoint ptr {line.pointer} to i64"), before)
    mixed = function.emit(f"mul i64 {row}, {_SPREAD}")
    number = function.emit(f"lshr i64 {mixed}, {65 - _LOCKS.bit_length()}")
    locks = scope.slot(scope.unit.arguments.locks, "ptr")
    return function.offset(locks, function.mul(number, _LINE_BYTES))


def take_lock(function: Function, lock: str) -> None:
    """Wait until a lock is open, and close it."""
    function.call_void(_taking(function.module), f"ptr {lock}")


def give_lock(function: Function, lock: str) -> None:
    """Open a lock: what was written is there for the next who takes it."""
    function.line(f"store atomic i32 0, ptr {lock} release, align 4")


def unless_alone(scope: Scope, change: Callable[[Function, str], None], lock: str) -> None:
    """Take or give a lock where threads are beside."""

    def beside() -> Sequence[str]:
        change(scope.function, lock)
        return ()

    scope.function.when(is_alone(scope), lambda: (), beside)


def _taking(module: Module) -> str:
    name = "take_lock"
    if any(each.name == name for each in module.functions):
        return name
    function = Function(module, name, [("ptr", "lock")], linkage="internal")
    again, wait, end = (function.label() for _ in range(3))
    function.branch(again)
    function.start(again)
    before = function.emit("atomicrmw xchg ptr %lock, i32 1 acquire, align 4")
    function.branch_if(function.emit(f"icmp eq i32 {before}, 0"), end, wait)
    function.start(wait)
    seen = function.emit("load atomic i32, ptr %lock monotonic, align 4")
    function.branch_if(function.emit(f"icmp eq i32 {seen}, 0"), again, wait)
    function.start(end)
    function.ret()
    return name
