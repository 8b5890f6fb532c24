"""A kernel with a grid: all that can be done with a launch, of which kernels do it on their own grid."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gizml_tile import looking
from gizml_tile.errors import TileError, here
from gizml_tile.grids import GridSpec
from gizml_tile.helpful import Helpful
from gizml_tile.notebooks import Text

if TYPE_CHECKING:
    from gizml_tile.kernel import Kernel
    from gizml_tile.lowering.explanation import Explanation
    from gizml_tile.nodes import TileProgram
    from gizml_tile.text import Layouts


class Gridded(Helpful):
    """A kernel with a grid: what ``kernel[grid]`` gives."""

    __slots__ = ("_kernel", "grid")

    _example = "kernel[grid]"
    _habits = "KERNEL"

    def __init__(self, kernel: Kernel, grid: GridSpec | None) -> None:
        self._kernel = kernel
        self.grid = grid

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch on this grid; the written tensors in the order of the ``write`` calls."""
        return self._kernel._launch(self.grid, args, named)

    def _told(self) -> str:
        return f"{self._kernel._told()} with a grid"

    def __repr__(self) -> str:
        return f"<{self._kernel!r} on {self.grid!r}>"

    def best(self, *args: Any, **named: Any) -> Mapping[str, object]:
        """The configuration that a launch with these arguments uses. Raises TileError without configs."""
        kernel = self._kernel
        if kernel._configs is None:
            raise TileError(f"{kernel._name} has no configurations: @tile.kernel(configs=[...])", here())
        return dict(kernel._chosen(self.grid, args, named, kernel._measure))

    def ir(self, *args: Any, **named: Any) -> str:
        """`Kernel.ir` on this grid."""
        text: str = self._look(looking.ir, args, named)
        return text

    def tile_ir(self, *args: Any, **named: Any) -> list[tuple[TileProgram, Layouts | None]]:
        """What `ir` tells, as values."""
        found: list[tuple[TileProgram, Layouts | None]] = self._look(looking.tile_ir, args, named)
        return found

    def source(self, *args: Any, **named: Any) -> str:
        """`Kernel.source` on this grid."""
        text: str = self._look(looking.source, args, named)
        return text

    def explain(self, *args: Any, **named: Any) -> str:
        """`Kernel.explain` on this grid."""
        return Text(self.explanation(*args, **named))

    def explanation(self, *args: Any, **named: Any) -> Explanation:
        """What `explain` tells, as values."""
        signature = self._kernel._signature
        own = "measure" in (*signature.positional, *signature.constants)
        measure = not own and bool(named.pop("measure", False))
        found: Explanation = self._look(functools.partial(looking.explain, measure=measure), args, named)
        return found

    def view(self, *args: Any, **named: Any) -> str:
        """`Kernel.view` on this grid."""
        from gizml_tile.viewing import view

        kernel = self._kernel
        written = functools.partial(view, source=kernel._source, rewritten=kernel._rewritten)
        page: str = self._look(written, args, named)
        return page

    def simulate(self, *args: Any, **named: Any) -> Any:
        """`Kernel.simulate` on this grid."""
        return self._look(looking.simulate, args, named)

    def bench(self, seconds: float, most: int, *args: Any, **named: Any) -> looking.Benchmark:
        """Launches on copies where the tensors are, measured for so many seconds, and so many at most."""
        found: looking.Benchmark = self._look(
            functools.partial(looking.bench, seconds=seconds, most=most), args, named
        )
        return found

    def check(self, *args: Any, **named: Any) -> None:
        """All of a launch but running it, with its errors and warnings; takes what ``ir`` takes."""
        self._look(looking.check, args, named)

    def _look(self, look: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        kernel = self._kernel
        kernel._refuse_inside()
        asked = {name: named.pop(name) for name in ("kind", "arch", "storage") if name in named}
        if kernel._configs is not None:
            named |= kernel._chosen(self.grid, args, named, False, launching=False)
        return look(kernel._request(self.grid, args, named), **asked)
