"""Two tiles that an operation gives together: a tuple, which computes nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from gizml_tile.errors import TileAttributeError, TileError, here


class Pair(tuple[Any, ...]):
    """A tuple of two tiles. What is asked of it as if it were one is an error that takes it apart."""

    __slots__ = ()

    _apart: ClassVar[str] = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            message = f"two tiles have no {name!r} together; take them apart: {self._apart}"
            raise TileAttributeError(message, here())

    def __add__(self, other: Any) -> Any:
        return super().__add__(other) if isinstance(other, tuple) else self._refuse("+")

    def _refuse(self, sign: str) -> NoReturn:
        raise TileError(f"{sign} computes with one tile, found two; take them apart: {self._apart}", here())


class Ordered(Pair):
    """The values of a sort and where each was."""

    __slots__ = ()

    _apart = "values, places = x.sort(1)"


class Halves(Pair):
    """Two halves of a tile."""

    __slots__ = ()

    _apart = "first, second = x.split(1)"


def _refusing(sign: str) -> Callable[..., NoReturn]:
    def operate(self: Pair, other: object) -> NoReturn:
        self._refuse(sign)

    return operate


for _name, _sign in {"sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
                     "matmul": "@", "and": "&", "or": "|", "xor": "^"}.items():  # fmt: skip
    setattr(Pair, f"__{_name}__", _refusing(_sign))
