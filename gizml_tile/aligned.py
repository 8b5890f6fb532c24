"""Tensors that are copied before a launch, to rows that begin where the copy engine can begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gizml_tile.launch import strides
from gizml_tile.program import Program
from gizml_tile.runtime.tensors import TensorInfo

if TYPE_CHECKING:
    from gizml_tile.runtime.cuda.kernel import CudaKernel

Body = Callable[[Program], None]

# Where each row begins, and the memory as a whole.
_ROW_BYTES, _WHOLE_BYTES = 16, 256
_BLOCK = (8, 256)
_CUDA = 2
# Elements are copied as bits.
_INTEGERS = {1: "|u1", 2: "<i2", 4: "<i4"}


def aligned(info: TensorInfo, pointer: int = _WHOLE_BYTES) -> TensorInfo:
    """The same tensor at another address, with rows along its contiguous axis that begin at 16 bytes."""
    fast = _fast_axis(info)
    order = [axis for axis in range(len(info.shape)) if axis != fast] + [fast]
    each = _ROW_BYTES // info.dtype.bytes
    step, steps = 1, [0] * len(order)
    for axis in reversed(order):
        steps[axis] = step
        step *= -(-info.shape[axis] // each) * each if axis == fast else info.shape[axis]
    return replace(info, strides=tuple(steps), pointer=pointer, refusal="")


def _fast_axis(info: TensorInfo) -> int:
    return strides(info.shape, info.strides).index("unit")


def bytes_of(info: TensorInfo) -> int:
    """The memory that an aligned tensor takes."""
    low, high = info.extent
    return -(-(high - low) // _WHOLE_BYTES) * _WHOLE_BYTES


@dataclass(frozen=True, slots=True)
class _Rows:
    """A tensor's elements on a device as integers, in rows along the contiguous axis."""

    __cuda_array_interface__: dict[str, Any]
    ordinal: int

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device, by DLPack's number for CUDA."""
        return _CUDA, self.ordinal


def _rows(info: TensorInfo, ordinal: int, *, whole: bool) -> _Rows:
    """A tensor in rows, which are ``whole`` with what lies between them up to 16 bytes."""
    fast = _fast_axis(info)
    order = [axis for axis in range(len(info.shape)) if axis != fast] + [fast]
    each = _ROW_BYTES // info.dtype.bytes if whole else 1
    *sizes, length = (info.shape[axis] for axis in order)
    return _Rows(
        {
            "version": 3,
            "typestr": _INTEGERS[info.dtype.bytes],
            "shape": (*sizes, -(-length // each) * each),
            "strides": tuple(info.strides[axis] * info.dtype.bytes for axis in order),
            "data": (info.pointer, False),
            "stream": None,
        },
        ordinal,
    )


def copying(rows: object, made: object, shape: Sequence[int]) -> tuple[tuple[int, ...], Body]:
    """The grid and the body that copy one tensor to another of so many elements, of two or three axes."""
    down, across = (-(-size // block) for size, block in zip(shape[-2:], _BLOCK, strict=True))

    def copy_rows(p: Program) -> None:
        j, i, *before = (p.id(axis) for axis in range(len(shape)))
        p.write(made, _BLOCK).put(p.read(rows, _BLOCK).at([*before, i, j]), [*before, i, j])

    return (across, down, *shape[:-2]), copy_rows


def _copy(source: TensorInfo, to: TensorInfo, ordinal: int, stream: int) -> None:
    """Copy a tensor on its device, element by element."""
    from gizml_tile.running import run

    rows, made = _rows(source, ordinal, whole=False), _rows(to, ordinal, whole=True)
    run(*copying(rows, made, made.__cuda_array_interface__["shape"]), stream=stream)


class CopyingKernel:
    """A kernel whose launch copies some of its tensors first, on the same stream."""

    def __init__(self, kernel: CudaKernel, copied: Sequence[int]) -> None:
        self.kernel = kernel
        self.copied = tuple(copied)

    def loaded(self, ordinal: int) -> object:
        """The kernel on a device, loaded where it is not yet."""
        return self.kernel.loaded(ordinal)

    def workgroups(self, grid: Sequence[int], ordinal: int) -> int:
        """How many workgroups a launch has."""
        return self.kernel.workgroups(grid, ordinal)

    def fast_call(self, call: object) -> None:
        """Nothing repeats such a launch natively: its memory is another each time."""

    def __call__(
        self,
        tensors: Sequence[TensorInfo],
        scalars: Sequence[int | float],
        grid: Sequence[int],
        stream: object = None,
    ) -> None:
        """Copy, launch and give the memory back, in the order of the stream."""
        from gizml_tile.runtime.cuda import streams
        from gizml_tile.runtime.cuda.devices import current, device, ordinal_of
        from gizml_tile.runtime.cuda.memory import borrowed
        from gizml_tile.runtime.streams import order, ordered

        ordinal = ordinal_of(tensors[0].device, tensors[0].pointer)
        plan = order(tensors, ordinal, stream)
        given = list(tensors)
        with ExitStack() as open_until_launched:
            open_until_launched.enter_context(current(device(ordinal)))
            open_until_launched.enter_context(ordered(plan, streams))
            for number in self.copied:
                size = bytes_of(aligned(tensors[number]))
                address = open_until_launched.enter_context(borrowed(ordinal, size, plan.stream))
                given[number] = aligned(tensors[number], address)
                _copy(tensors[number], given[number], ordinal, plan.stream)
            self.kernel(given, scalars, grid, plan.stream)
