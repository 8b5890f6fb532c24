"""Python's operators on tiles and indices: each calls the named method of the same meaning."""

from __future__ import annotations

from typing import Any, NoReturn

from gizml_tile.dtypes import MASK
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
        if self._node.is_index:
            way = "compare it, as in i.ne(0), and branch with p.cond(condition, then, otherwise)"
        elif self._node.dtype is not MASK:
            way = "make a mask by comparing, as in x.gt(0), and choose values with m.select(yes, no)"
        elif getattr(self, "_uniform", False):
            way = (
                "branch with p.cond(condition, then, otherwise), choose values with m.select(yes, no), and "
                "combine masks with and_, or_ and not_"
            )
        else:
            way = (
                "choose values with m.select(yes, no), combine masks with and_, or_ and not_, and take the "
                "larger of two tiles with maximum"
            )
        fail(f"{self._what()} is neither true nor false before the kernel runs; {way}")

    def __iter__(self) -> NoReturn:
        way = (
            "loop up to it with p.loop(start, stop, inits, body), in a kernel with `for k in range(n):`"
            if self._node.is_index
            else "its elements are combined with x.sum(axis) or x.max(axis), and parts of it are x[a:b]"
        )
        fail(f"{self._what()} is not a sequence and cannot be iterated or unpacked; {way}")

    def __len__(self) -> int:
        way = "an index is one integer" if self._node.is_index else "the sizes of a tile are its .shape"
        fail(f"{self._what()} has no len(); {way}")

    def __contains__(self, item: object) -> bool:
        fail(f"`in` does not search {self._what()}; compare with == and reduce the mask with .any(axis)")

    def __getitem__(self, key: object) -> Any:
        fail(
            f"{self._what()} has no elements to take; blocks of an input are taken with A[i, k], "
            "elements of a tile are chosen with m.select(yes, no)"
        )

    def __setitem__(self, key: object, value: object) -> None:
        fail(
            f"{self._what()} never changes; values chosen by a mask are m.select(yes, no), and blocks are "
            "stored in an output, C = p.write(c, block), with C[i, j] = tile"
        )

    def __delitem__(self, key: object) -> NoReturn:
        fail(f"{self._what()} never changes; parts of it are taken, as in x[a:b]")

    def __float__(self) -> float:
        self._no_number()

    def __int__(self) -> int:
        self._no_number()

    def __complex__(self) -> complex:
        self._no_number()

    def _no_number(self) -> NoReturn:
        way = (
            "compute with it as it is, or with the tile that i.value() makes of it"
            if self._node.is_index
            else "compute with methods of tiles, as with x.exp() in place of math.exp(x)"
        )
        fail(f"{self._what()} is no Python number: its value is known only when the kernel runs; {way}")

    def __index__(self) -> int:
        fail(
            f"{self._what()} is known only when the kernel runs, and a Python integer is needed before; for "
            "range() write p.loop(start, stop, inits, body), and make sizes and list positions constants: "
            "parameters after a *"
        )

    def __round__(self, digits: object = None) -> Any:
        fail(f"round() does not take {self._what()}, which is an integer")

    def __call__(self, *args: object, **keywords: object) -> NoReturn:
        fail(f"{self._what()} is not called: properties such as x.T and x.shape have no parentheses")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self
