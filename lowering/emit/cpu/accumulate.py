"""Adding to what is in memory, or keeping the larger or smaller: alone, or beside other threads."""

from __future__ import annotations

from gizml_tile.dtypes import F32, DType, math_dtype
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function
from gizml_tile.lowering.emit.cpu.scope import Scope

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
    if dtype.is_integer or (dtype is F32 and combine == "add"):
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
    function.lines.insert(place, phi)
    function.branch_if(done, end, again)
    function.start(end)


def _cast(function: Function, value: str, source: str, target: str) -> str:
    return value if source == target else function.emit(f"bitcast {source} {value} to {target}")
