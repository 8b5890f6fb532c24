"""What NumPy's, PyTorch's and Python's functions do with what a program holds: say what to write instead."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from gizml_tile.errors import Place, TileError, here
from gizml_tile.helpful import Fixed

# NumPy asks with these names where an array or a scalar of its own stands at the left of an operator: what
# then answers is the method of the right one.
_REFLECTED: Mapping[str, str] = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__",
    "right_shift": "__rrshift__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}


class Foreign(Fixed):
    """What a program holds, which functions of other libraries do not take: errors name our own."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        reflected = _REFLECTED.get(ufunc.__name__)
        if reflected and method == "__call__" and not named and not isinstance(inputs[0], Foreign):
            return getattr(inputs[1], reflected)(inputs[0])
        if named.get("out") is not None and not isinstance(inputs[0], Foreign):
            raise TileError(
                f"an array of the host is not changed by {self._told()}; a kernel writes to an output: "
                "C = p.write(tensor, block), then C[i, j] = tile",
                here(),
            )
        _no_function("np", ufunc.__name__, self)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> NoReturn:
        _no_function("np", function.__name__, self)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), named: Any = None) -> NoReturn:
        given = [*args, *(each for each in args if isinstance(each, list | tuple)), *(named or {}).values()]
        found = next((each for each in given if isinstance(each, Foreign)), None)
        _no_function("torch", getattr(function, "__name__", "function").strip("_"), found)

    def __array__(self, *args: object, **named: object) -> NoReturn:
        raise TileError(
            f"{self._told()} is no array of the host: its values are known only when the kernel runs; store "
            "them in an output, C[i, j] = tile, or see them with p.print(...)",
            here(),
        )

    def __format__(self, form: str) -> str:
        if form:
            raise TileError(
                f"{self._told()} has no digits to format: its values are known only when the kernel runs; "
                "p.print(...) prints them then",
                here(),
            )
        return str(self)


def _no_function(library: str, name: str, found: Foreign | None) -> NoReturn:
    """Raise the error for another library's function of what a program holds."""
    from gizml_tile.habits import FUNCTIONS, TILE
    from gizml_tile.tile import Tile

    place = here()
    it = _argument(place) or "x"
    takes = "arrays" if library == "np" else "tensors"
    what = f"{library}.{name} takes {takes}, found {'a tile' if found is None else found._told()}"
    name = FUNCTIONS.get(name, name)
    if isinstance(found, Unread):
        raise TileError(f"{what}, not a block of it; {found._way()}", place)
    if name in TILE:
        raise TileError(f"{what}; {TILE[name].format(it=it)}", place)
    method: Callable[..., Any] | None = getattr(Tile, name, None)
    if method is None:
        raise TileError(f"{what}; help(tile.Tile) lists what tiles can do", place)
    import inspect

    needed = [
        each.name
        for each in list(inspect.signature(method).parameters.values())[1:]
        if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
    ]
    raise TileError(f"{what}; write {it}.{name}({', '.join(needed)})", place)


def _argument(place: Place | None) -> str:
    """The first argument of the call in the person's expression, where it is a name."""
    if place is None:
        return ""
    source = linecache.getline(place.filename, place.line)[place.column - 1 :]
    match = re.match(r"[\w.]+\(\s*([A-Za-z_]\w*)\s*[,)]", source)
    return match[1] if match else ""


class Unread(Foreign):
    """Tensors and views of them, which are not computed with: their blocks are."""

    __slots__ = ()

    def _way(self) -> str:
        """How a block of it is read."""
        raise NotImplementedError

    def _refuse(self, sign: str) -> NoReturn:
        message = f"{sign} computes with tiles, found {self._told()}, not a block of it; {self._way()}"
        raise TileError(message, here())

    def __call__(self, *args: object, **named: object) -> NoReturn:
        raise TileError(f"{self._told()} is not called; {self._way()}", here())

    def __float__(self) -> float:
        self._refuse("float()")

    def __int__(self) -> int:
        self._refuse("int()")

    def __index__(self) -> int:
        self._refuse("an integer that Python needs")

    def __eq__(self, other: object) -> bool:
        if other is None or other is self:
            return other is self
        self._refuse("==")

    def __ne__(self, other: object) -> bool:
        if other is None or other is self:
            return other is not self
        self._refuse("!=")

    __hash__ = object.__hash__


_TWO_SIDED = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_ONE_SIDED = {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "pos": "+", "abs": "abs()", "invert": "~",
    "round": "round()",
}  # fmt: skip


def _refusing(sign: str) -> Callable[..., NoReturn]:
    def operate(self: Unread, *others: object) -> NoReturn:
        self._refuse(sign)

    return operate


for _name, _sign in (_TWO_SIDED | _ONE_SIDED).items():
    setattr(Unread, f"__{_name}__", _refusing(_sign))
    if _name in _TWO_SIDED:
        setattr(Unread, f"__r{_name}__", _refusing(_sign))
