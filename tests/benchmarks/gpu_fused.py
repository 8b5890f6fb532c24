"""The rows of products with work before and after them, beside our plain product in the same run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import gpu_fused_kernels as fused
import gpu_kernels as ours
import torch
from gpu_timing import Call, Case, Ours
from gpu_work import BF16_ERROR, BF16_SIZES, DEVICE, chosen, exact_and_approximate, others, random

SIZE = 4096
# Rounding to E4M3 moves a value by up to 2^-4 of it.
FP8_ERROR = 2.0**-4 + 2.0**-10


def beside_plain(
    name: str, mine: dict[str, Ours], a: torch.Tensor, b: torch.Tensor, unfused: Callable[[], object]
) -> Case:
    """A fused product: ratios are the share of our plain product's rate, and how far PyTorch's is behind."""
    c = torch.empty(SIZE, SIZE, dtype=a.dtype, device=DEVICE)
    truth = lambda: a.double() @ b.double()
    plain = chosen(ours.matmul, a, b, c, sizes=BF16_SIZES, truth=truth, allowed=BF16_ERROR)
    peers: dict[str, Call] = {f"plain ({plain.choice})": plain.call}
    return Case(name, 2.0 * SIZE**3, "TFLOP/s", mine, peers | others(torch=lambda: unfused))


def epilogue_rows(quick: bool) -> Iterator[Case]:
    """What is done with a product's result before it is stored."""
    a, b, residual = random(SIZE, SIZE), random(SIZE, SIZE), random(SIZE, SIZE)
    bias, c = random(SIZE, dtype=torch.float32), torch.empty_like(a)
    product = torch.empty_like(a)
    given = partial(beside_plain, a=a, b=b)

    def gelu_truth() -> torch.Tensor:
        u = a.double() @ b.double() + bias
        return 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))

    def gelu() -> torch.Tensor:
        product_of_both = torch.addmm(bias.to(a.dtype), a, b, out=product)
        return torch.nn.functional.gelu(product_of_both, approximate="tanh")

    mine = exact_and_approximate(fused.biased_gelu, a, b, bias, c, sizes=BF16_SIZES, truth=gelu_truth)
    yield given(f"bias + gelu after bf16 {SIZE}", mine, unfused=gelu)

    def added_truth() -> torch.Tensor:
        return a.double() @ b.double() + residual

    added = chosen(
        fused.with_residual, a, b, residual, c, sizes=BF16_SIZES, truth=added_truth, allowed=BF16_ERROR
    )
    yield given(
        f"residual after bf16 {SIZE}",
        {"": added},
        unfused=lambda: torch.mm(a, b, out=product).add_(residual),
    )
    narrow = torch.empty(SIZE, SIZE, dtype=torch.float8_e4m3fn, device=DEVICE)
    truth = lambda: a.double() @ b.double()
    cast = chosen(ours.matmul, a, b, narrow, sizes=BF16_SIZES, truth=truth, allowed=FP8_ERROR)
    yield given(
        f"to fp8 after bf16 {SIZE}",
        {"": cast},
        unfused=lambda: torch.mm(a, b, out=product).to(narrow.dtype),
    )


def prologue_rows(quick: bool) -> Iterator[Case]:
    """What is done with a product's operands on the way: scales of rows, weights in 8 bits."""
    yield from map(scaled, (torch.bfloat16,) if quick else (torch.float16, torch.bfloat16))
    yield from map(dequantised, (torch.float8_e4m3fn, torch.int8))
    yield grouped()


def scaled(dtype: torch.dtype) -> Case:
    """Rows of the left operand times a number each."""
    a, b = random(SIZE, SIZE, dtype=dtype), random(SIZE, SIZE, dtype=dtype)
    scale, c = torch.rand(SIZE, 1, device=DEVICE) + 0.5, torch.empty_like(a)

    def rows() -> torch.Tensor:
        return (a.float() * scale).to(dtype)

    truth = lambda: rows().double() @ b.double()
    mine = chosen(fused.scaled_rows, a, scale, b, c, sizes=BF16_SIZES, truth=truth, allowed=BF16_ERROR)
    name = str(dtype).removeprefix("torch.")
    return beside_plain(f"scaled rows {name} {SIZE}", {"": mine}, a, b, lambda: torch.mm(rows(), b))


def dequantised(dtype: torch.dtype) -> Case:
    """Weights in 8 bits times a number for each column."""
    a, scale = random(SIZE, SIZE), torch.rand(SIZE, device=DEVICE) + 0.5
    if dtype is torch.int8:
        weights = torch.randint(-127, 128, (SIZE, SIZE), device=DEVICE, dtype=dtype)
        scale = scale / 64
    else:
        weights = random(SIZE, SIZE, dtype=dtype)
    c = torch.empty_like(a)

    def columns() -> torch.Tensor:
        return (weights.float() * scale).to(a.dtype)

    truth = lambda: a.double() @ columns().double()
    mine = chosen(fused.dequantised, a, weights, scale, c, sizes=BF16_SIZES, truth=truth, allowed=BF16_ERROR)
    name = {torch.int8: "int8", torch.float8_e4m3fn: "fp8"}[dtype]
    return beside_plain(
        f"{name} weights to bf16 {SIZE}", {"": mine}, a, columns(), lambda: torch.mm(a, columns())
    )


def grouped() -> Case:
    """Weights [N, K] in 8 bits times a number for each row and 128 elements of k."""
    a, group = random(SIZE, SIZE), 128
    weights = torch.randint(-127, 128, (SIZE, SIZE), device=DEVICE, dtype=torch.int8)
    scale = (torch.rand(SIZE, SIZE // group, device=DEVICE) + 0.5) / 64
    c = torch.empty_like(a)

    def scaled_weights() -> torch.Tensor:
        return (weights.float() * scale.repeat_interleave(group, 1)).to(a.dtype).T

    mine = chosen(
        fused.dequantised_in_groups,
        *(a, weights, scale, c),
        sizes=BF16_SIZES,
        truth=lambda: a.double() @ scaled_weights().double(),
        allowed=BF16_ERROR,
        GROUP=group,
    )
    name = f"int8 weights in groups of {group} to bf16 {SIZE}"
    return beside_plain(name, {"": mine}, a, scaled_weights(), lambda: torch.mm(a, scaled_weights()))
