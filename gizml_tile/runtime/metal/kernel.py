"""Kernels on Apple GPUs: kept on disk as text, compiled at the first launch, and launched."""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import TileError, here
from .. import disk_cache
from ..parameters import WORD_BYTES, described, words
from ..tensors import TensorInfo
from .artifact import Artifact, restore
from .shaders import compiler

if TYPE_CHECKING:
    from ..fast_call import Call, FastCall

# A launch counts its threads in 32 bits.
_MOST_THREADS = (1 << 32) - 1


def made_with() -> str:
    """What code depends on beside the text: nothing, for each process has it compiled."""
    return ""


def assembled(artifact: Artifact) -> disk_cache.Entry:
    """What to keep of a kernel on disk: its facts and its text."""
    return disk_cache.Entry(described(artifact), artifact.text.encode())


def restored(entry: disk_cache.Entry) -> MetalKernel:
    """A kernel that `assembled` told, ready to launch; it is compiled at its first launch."""
    return MetalKernel(restore(entry.metadata, entry.data.decode()))


class MetalKernel:
    """A text for one layout of tensors, launched by calling it."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        parameters = artifact.parameters
        self._tensors = [each.index for each in parameters if each.kind == "pointer"]
        numbers = [each for each in parameters if each.kind != "pointer"]
        self._integers = [each for each in numbers if each.dtype == "i64"]
        self._floats = [each for each in numbers if each.dtype == "f32"]
        self._function: Any = None
        self._lock = threading.Lock()

    def function(self) -> Any:
        """The compiled function. Raises TileError where the text is refused or has too many threads."""
        mps = compiler()
        with self._lock:
            if self._function is None:
                self._function = self._compiled(mps)
            return self._function

    def _compiled(self, mps: Any) -> Any:
        entry, threads = self.artifact.entry, self.artifact.threads
        try:
            function = getattr(mps.compile_shader(self.artifact.text), entry)
        except (RuntimeError, SyntaxError) as error:
            raise TileError(
                f"kernel {entry}: Metal's compiler refuses its text, which is a defect of this package: "
                f"{error}",
                here(),
            ) from None
        most = getattr(function, "max_threads_per_threadgroup", threads)
        if most < threads:
            raise TileError(
                f"kernel {entry} has {threads} threads, and its registers leave room for {most} on this GPU; "
                "make the blocks smaller or ask for fewer warps",
                here(),
            )
        return function

    def fast_call(self, call: Call) -> FastCall | None:
        """Launches go through PyTorch each time."""
        return None

    def __call__(
        self,
        tensors: Sequence[TensorInfo],
        scalars: Sequence[int | float],
        grid: Sequence[int],
        stream: object = None,
    ) -> None:
        """Put a launch over a grid on PyTorch's queue and return at once.

        Raises TileError for a stream, of which there is only PyTorch's, and for more threads than a launch
        can count.
        """
        if stream is not None:
            raise TileError("on Metal launches are on PyTorch's own queue; leave stream out", here())
        programs, threads = math.prod(grid), self.artifact.threads
        if programs * threads > _MOST_THREADS:
            sizes, most = " x ".join(map(str, grid)), _MOST_THREADS // threads
            raise TileError(
                f"kernel {self.artifact.entry}: a grid of {sizes} has {programs} programs, and a launch at "
                f"most {most} of {threads} threads; let each do more",
                here(),
            )
        arguments: list[Any] = [tensors[number].owner for number in self._tensors]
        for numbers, form in ((self._integers, "=q"), (self._floats, "=f")):
            if numbers:
                packed = words(numbers, tensors, scalars, grid)
                places = range(0, len(packed), WORD_BYTES)
                arguments.append([struct.unpack_from(form, packed, place)[0] for place in places])
        self.function()(*arguments, threads=programs * threads, group_size=threads)
