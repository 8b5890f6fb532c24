"""Python's operators on tiles and indices: each calls the named method of the same meaning."""

from __future__ import annotations

from typing import Any, NoReturn

from gizml_tile.tracing import Value, article, fail, noun


class Operators(Value):
    """What tiles and indices share: operators, and the located errors for what they cannot be."""

    __slots__ = ()

    def _operate(self, op: str, left: object, right: object) -> Any:
        raise NotImplementedError

    def _what(self) -> str:
        return article(noun(self._node))

    def _told(self) -> str:
        return self._what()

    def __add__(self, other: object) -> Any:
        return self._operate("add", self, other)

    def __radd__(self, other: object) -> Any:
        return self._operate("add", other, self)

    def __sub__(self, other: object) -> Any:
        return self._operate("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return self._operate("sub", other, self)

    def __mul__(self, other: object) -> Any:
        return self._operate("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self._operate("mul", other, self)

    def __truediv__(self, other: object) -> Any:
        return self._operate("truediv", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self._operate("truediv", other, self)

    def __floordiv__(self, other: object) -> Any:
        return self._operate("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return self._operate("floordiv", other, self)

    def __mod__(self, other: object) -> Any:
        return self._operate("floormod", self, other)

    def __rmod__(self, other: object) -> Any:
        return self._operate("floormod", other, self)

    def __divmod__(self, other: object) -> Any:
        return self._operate("floordiv", self, other), self._operate("floormod", self, other)

    def __and__(self, other: object) -> Any:
        return self._operate("and_", self, other)

    def __rand__(self, other: object) -> Any:
        return self._operate("and_", other, self)

    def __or__(self, other: object) -> Any:
        return self._operate("or_", self, other)

    def __ror__(self, other: object) -> Any:
        return self._operate("or_", other, self)

    def __xor__(self, other: object) -> Any:
        return self._operate("xor", self, other)

    def __rxor__(self, other: object) -> Any:
        return self._operate("xor", other, self)

    def __lshift__(self, other: object) -> Any:
        return self._operate("shl", self, other)

    def __rlshift__(self, other: object) -> Any:
        return self._operate("shl", other, self)

    def __rshift__(self, other: object) -> Any:
        return self._operate("shr", self, other)

    def __rrshift__(self, other: object) -> Any:
        return self._operate("shr", other, self)

    def __lt__(self, other: object) -> Any:
        return self._operate("lt", self, other)

    def __le__(self, other: object) -> Any:
        return self._operate("le", self, other)

    def __gt__(self, other: object) -> Any:
        return self._operate("gt", self, other)

    def __ge__(self, other: object) -> Any:
        return self._operate("ge", self, other)

    def __eq__(self, other: object) -> Any:
        return self._operate("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self._operate("ne", self, other)

    # Python gives a class that defines == no hash; values keep theirs, by identity.
    __hash__ = Value.__hash__

    def __pos__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        fail(
            f"{self._what()} has no truth value while the program is traced; combine masks with and_, or_ "
            "and not_, choose values with m.select(yes, no), branch with p.cond(condition, then, otherwise), "
            "and take the larger of two with maximum"
        )

    def __iter__(self) -> NoReturn:
        fail(f"{self._what()} is not a sequence and cannot be iterated or unpacked")

    def __len__(self) -> int:
        fail(f"{self._what()} has no len(); the sizes of a tile are its .shape")

    def __contains__(self, item: object) -> bool:
        fail(f"`in` does not search {self._what()}; compare with == and reduce the mask with .max(axis)")

    def __getitem__(self, key: object) -> Any:
        fail(
            f"{self._what()} has no elements to take; blocks of an input are taken with A[i, k], "
            "elements of a tile are chosen with m.select(yes, no)"
        )

    def __setitem__(self, key: object, value: object) -> None:
        fail(
            f"{self._what()} is immutable; blocks are stored in an output, C = p.write(c, block), "
            "with C[i, j] = tile"
        )

    def __float__(self) -> float:
        fail(f"{self._what()} is known at run time only and is no host number; use its methods")

    def __int__(self) -> int:
        fail(f"{self._what()} is known at run time only and is no host number; use its methods")

    def __index__(self) -> int:
        fail(
            f"{self._what()} is known at run time only and cannot be a host integer; for range() write "
            "p.loop(start, stop, inits, body), and make sizes keyword-only constants"
        )

    def __round__(self, digits: object = None) -> Any:
        fail(f"round() does not take {self._what()}, which is an integer")

    def __call__(self, *args: object, **keywords: object) -> NoReturn:
        fail(f"{self._what()} is not callable")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self
