"""What a kernel's preview says is what the kernel does: checked for every kernel that a test traces."""

import types

import gizml_tile as tile
from gizml_tile import specialise
from gizml_tile.kernel import Kernel
from gizml_tile.program import trace
from gizml_tile.text import text


def previewed(kernel):
    """The function that a kernel's preview defines, run by itself beside the original's names."""
    function = kernel.__wrapped__
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    names = {**function.__globals__, "tile": tile}
    names |= {name: cell.cell_contents for name, cell in cells if cell_is_full(cell)}
    known = dict(names)
    exec(kernel.preview(), names)
    if kernel.__name__ != "<lambda>":
        return names[kernel.__name__]
    return next(value for name, value in names.items() if known.get(name) is not value)


def cell_is_full(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def check_previews(monkeypatch):
    """Whenever a kernel is traced, trace its preview as well and compare the tile IR, node for node."""
    checked = []
    real = specialise._trace

    def traced(request):
        result = real(request)
        bound = getattr(request.body, "func", None)
        kernel = getattr(bound, "__self__", None)
        if isinstance(kernel, Kernel):
            rewritten = types.SimpleNamespace(function=previewed(kernel))
            stand_in = types.SimpleNamespace(_rewritten=rewritten)

            def body(p):
                return Kernel._body(stand_in, *request.body.args, p)

            again = trace(request.name, body, grid_rank=len(request.grid))
            assert text(again.program, places=False) == text(result.program, places=False), kernel.preview()
            checked.append(kernel)
        return result

    monkeypatch.setattr(specialise, "_trace", traced)
    return checked
