"""Variants that a program asks for: they are used, or the error names those that can serve."""

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import stored
from gizml_tile.program import trace
from gizml_tile.text import text


@tile.kernel(grid=1)
def product(p, a, b, c, *, OPERATION="dot", NAME="multiply-add"):
    p.variant(OPERATION, NAME)
    A, B, C = p.read(a, [32, 32]), p.read(b, [32, 32]), p.write(c, [32, 32])
    acc = p.zeros([32, 32])
    for k in range(A.blocks(1)):
        acc += A[0, k] @ B[k, 0]
    C[0, 0] = acc


@tile.kernel(grid=1)
def copy(p, x, out, *, OPERATION, NAME):
    p.variant(OPERATION, NAME)
    p.write(out, [4, 64])[0, 0] = p.read(x, [4, 64])[0, 0]


def operands():
    random = np.random.default_rng(0)
    a, b = (random.integers(-8, 8, shape).astype(np.float16) for shape in ((32, 64), (64, 32)))
    return a, b, np.zeros((32, 32), np.float32)


@pytest.mark.parametrize(
    "operation, name, shows",
    [
        ("dot", "multiply-add", "fma.rn.f32"),
        ("dot", "f16_16x8x8", "mma.sync.aligned.m16n8k8"),
        ("dot", "f16_16x8x16", "mma.sync.aligned.m16n8k16"),
        ("copy to workgroup memory", "asynchronous copy of 8 bytes", "], 8"),
        ("copy to workgroup memory", "copy of 16 bytes through registers", "ld.global.v4.b32"),
        ("put", "element", "st.global.b32"),
    ],
)
def test_a_variant_is_used(operation, name, shows):
    a, b, c = operands()
    named = {"OPERATION": operation, "NAME": name, "arch": "sm_80"}
    assert shows in product.source(a, b, c, kind="cuda", **named)
    assert f"{operation} by {name}" in product.ir(a, b, c, kind="cuda", **named)
    product.simulate(a, b, c, **named)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("operation", ["read", "put"])
def test_the_width_of_accesses(operation):
    x, out = np.arange(256, dtype=np.float32).reshape(4, 64), np.zeros((4, 64), np.float32)
    short = {"read": "ld", "put": "st"}[operation]
    for name, shows in (("vector 16 bytes", ".v4"), ("vector 8 bytes", ".v2"), ("element", "")):
        source = copy.source(x, out, kind="cuda", OPERATION=operation, NAME=name, warps=1)
        assert f"{short}.global{shows}.b32" in source
        copy.simulate(x, out, OPERATION=operation, NAME=name, warps=1)
        assert np.array_equal(out, x)
        out[:] = 0


MISTAKES = [
    (product, "dot", "tf32", "dot cannot be made by 'tf32': there is no such variant; variants that can: "),
    (
        product,
        "put",
        "vector 2 bytes",
        "put cannot be made by 'vector 2 bytes': there is no such variant; variants that can: vector "
        "8 bytes, ",
    ),
    (
        product,
        "copy to workgroup memory",
        "asynchronous copy of 2 bytes",
        "copy to workgroup memory cannot be made by 'asynchronous copy of 2 bytes': asynchronous copies move "
        "4, 8 or 16 bytes; variants that can: asynchronous copy of 16 bytes, ",
    ),
    (
        copy,
        "read",
        "vector 16 bytes",
        "read cannot be made by 'vector 16 bytes': a thread has only 2 neighbouring columns in the layout "
        "blocked 2 wide; variants that can: vector 8 bytes, element",
    ),
]


@pytest.mark.parametrize("kernel, operation, name, message", MISTAKES)
def test_a_variant_that_cannot_serve(kernel, operation, name, message):
    x = np.zeros((4, 64), np.float32)
    given = operands() if kernel is product else (x, x.copy())
    with pytest.raises(tile.TileError) as caught:
        kernel.source(*given, kind="cuda", arch="sm_80", OPERATION=operation, NAME=name, warps=4)
    error = caught.value
    assert error.message.startswith(message)
    line = {"dot": "acc += ", "put": "C[0, 0] =", "read": "p.read(x, ", "copy to workgroup memory": "A[0, k]"}
    assert error.filename == __file__ and line[operation] in str(error).splitlines()[1]


def test_the_cpu_has_no_variants():
    a, b, c = operands()
    product(a, b, c, NAME="nothing of this name")
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_what_variant_takes():
    a, b, c = operands()
    for operation, name, message in (
        (
            "dots",
            "multiply-add",
            "variant takes one of the operations loop, workgroups, programs, turns, order, dot, read, put, ",
        ),
        ("dot", 3, "variant takes the name of a variant of dot, found 3"),
    ):
        with pytest.raises(tile.TileError) as caught:
            product(a, b, c, OPERATION=operation, NAME=name)
        assert caught.value.message.startswith(message)
        assert "p.variant(OPERATION, NAME)" in str(caught.value)


def test_programs_keep_their_variants():
    def body(p):
        p.variant("put", "element")
        p.variant("dot", "multiply-add")
        p.variant("dot", "f16_16x8x16")

    program = trace("body", body).program
    assert program.variants == (("dot", "f16_16x8x16"), ("put", "element"))
    assert "dot by f16_16x8x16, put by element" in text(program)
    assert text(stored.restore(stored.store(program))) == text(program)
