"""The kernels whose speed is measured, with blocks as they are measured; sizes divide, as there."""

from __future__ import annotations

import numpy as np
from elementwise_cases import add, bias_gelu, transpose
from gpu_cases import Case, numbers, room
from product_cases import attention, matmul
from row_cases import layernorm, rmsnorm, softmax

from gizml_tile.dtypes import BF16
from gizml_tile.lowering.atoms import atoms
from gizml_tile.target import Target


def square(kind: str, size: int = 256) -> list[np.ndarray]:
    a, b = (numbers(size, size, kind=kind, seed=seed) for seed in (0, 1))
    return [a, b, room(size, size, kind=kind)]


def heads(kind: str, depth: int) -> list[np.ndarray]:
    shape = (1, 1, 256, depth)
    return [*(numbers(*shape, kind=kind, seed=seed) for seed in range(3)), room(*shape, kind=kind)]


def product(kind: str, block: tuple[int, int, int], warps: int, stages: int) -> Case:
    name = f"matmul {kind} {'x'.join(map(str, block))}, {warps} warps, {stages} stages"
    constants = dict(zip(("BM", "BN", "BK"), block, strict=True))
    return Case(name, matmul, lambda: square(kind), constants | {"WARPS": warps, "STAGES": stages})


def products(kind: str, memory: int) -> list[Case]:
    """Products of 16-bit floats, in as many stages as fit so many bytes of workgroup memory."""
    sizes = [((128, 128, 32), 4, 3), ((128, 128, 32), 8, 4), ((128, 256, 32), 8, 3), ((128, 256, 64), 8, 4)]
    return [
        product(kind, block, warps, stages)
        for block, warps, stages in sizes
        if 2 * stages * (block[0] + block[1]) * block[2] <= memory
    ]


def attentions(kind: str) -> list[Case]:
    return [
        Case(
            f"attention {kind} {depth}{' causal' if causal else ''}",
            attention,
            lambda depth=depth: heads(kind, depth),
            {"D": depth, "CAUSAL": causal},
        )
        for depth in (64, 128)
        for causal in (False, True)
    ]


def rows(kind: str, columns: int) -> list[Case]:
    """Softmax and norms of one row a program."""
    x, residual = (lambda seed=seed: numbers(4, columns, kind=kind, seed=seed) for seed in (0, 1))
    weight, made = (lambda: numbers(columns, kind=kind)), (lambda: room(4, columns, kind=kind))
    constants = {"COLUMNS": columns, "ROWS": 1}
    kernels = {
        softmax: lambda: [x(), made()],
        layernorm: lambda: [x(), weight(), weight(), made()],
        rmsnorm: lambda: [x(), residual(), weight(), made(), made()],
    }
    return [
        Case(f"{kernel.__name__} {kind} {columns}", kernel, tensors, constants)
        for kernel, tensors in kernels.items()
    ]


def moves(kind: str) -> list[Case]:
    """What memory alone bounds."""
    vector = lambda: numbers(4096, kind=kind)
    table = lambda: numbers(64, 512, kind=kind)
    return [
        Case(f"add {kind}", add, lambda: [vector(), vector(), vector()]),
        Case(f"bias gelu {kind}", bias_gelu, lambda: [table(), numbers(512), numbers(512), table()]),
        Case(f"transpose {kind}", transpose, lambda: square(kind)[1:]),
    ]


def cases(arch: str, kind: str = "cuda") -> list[Case]:
    """All of them for an architecture; sm_75 has units for F16 and none for BF16."""
    target = Target(kind, arch)
    kind = "bf16" if any(atom.a_dtype is BF16 for atom in atoms(target)) else "f16"
    f32 = {"BM": 128, "BN": 128, "BK": 16, "WARPS": 8}
    return [
        *products(kind, target.facts.workgroup_memory),
        Case("matmul f32 128x128x16", matmul, lambda: square("f32"), f32),
        *attentions(kind),
        *(case for columns in (1024, 4096) for case in rows(kind, columns)),
        *moves(kind),
        *moves("f32"),
    ]
