"""A decorated kernel's arguments while it is traced from types alone, without data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gizml_tile.dtypes import DType
from gizml_tile.errors import Place
from gizml_tile.foreign import Unread

if TYPE_CHECKING:
    from gizml_tile.index import Index


class TensorArgument(Unread):
    """A tensor parameter of a kernel: its storage type and rank are known, its sizes are indices."""

    __slots__ = ("_dtype", "_name", "_number", "_rank")

    _example = "a"
    _habits = "TENSOR"

    def __init__(self, name: str, dtype: DType, rank: int, number: int) -> None:
        self._name = name
        self._dtype = dtype
        self._rank = rank
        self._number = number

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self._name

    @property
    def number(self) -> int:
        """The parameter's position among the tensors of the signature."""
        return self._number

    @property
    def dtype(self) -> DType:
        """The storage type."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._rank

    @property
    def shape(self) -> tuple[Index, ...]:
        """The sizes, as run-time indices."""
        from gizml_tile.views import sizes

        return sizes(self)

    def _told(self) -> str:
        return f"the tensor {self._name}"

    def _way(self) -> str:
        return f"read one: A = p.read({self._name}, [rows, columns]), then A[i, k]"

    def __len__(self) -> int:
        from gizml_tile.tracing import fail

        fail(f"the size of {self._name} is known only when the kernel runs; it is {self._name}.shape[0]")

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: object) -> object:
        from gizml_tile.tracing import fail

        fail(
            f"{self._name} is a tensor: read a block of it first, "
            f"A = p.read({self._name}, [rows, columns]), then A[i, k]"
        )

    def __setitem__(self, key: object, value: object) -> None:
        from gizml_tile.tracing import fail

        fail(
            f"{self._name} is a tensor: write a block of it with "
            f"C = p.write({self._name}, [rows, columns]), then C[i, j] = tile"
        )

    def __repr__(self) -> str:
        return f"<tensor {self._name} {self._dtype} of rank {self._rank}>"


class ScalarArgument:
    """A number parameter of a kernel: I64 becomes an index, F32 a [1, 1] tile.

    ``place`` is where the kernel is defined, which is told of a value that no line of its body makes.
    """

    __slots__ = ("dtype", "name", "number", "place")

    def __init__(self, name: str, dtype: DType, number: int, place: Place | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.number = number
        self.place = place
