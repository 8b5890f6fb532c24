"""The rows of attention's variants, by useful operations beside our plain causal attention's rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import gpu_fused_kernels as fused
import gpu_kernels as ours
import torch
from gpu_timing import Call, Case, Ours
from gpu_work import DEVICE, PEER_ERROR, attention_truth, exact_and_approximate, others, random
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCH, HEADS, LENGTH, DEPTH = 4, 16, 4096, 128
SIZES = [{"BM": bm, "BN": bn} for bm, bn in ((128, 128), (128, 64), (64, 128), (64, 64))]
DEEP_SIZES = [{"BM": bm, "BN": bn} for bm, bn in ((128, 64), (64, 64))]
PLAIN = "plain causal for as many operations"


@dataclass(frozen=True)
class Variant:
    """Causal attention that differs from the plain one in some of these."""

    name: str
    shared: int = 1
    window: int = 0
    biased: bool = False
    length: int = LENGTH
    depth: int = DEPTH

    @property
    def work(self) -> float:
        """Operations of the pairs of a query and a key that it sees."""
        window = self.window or self.length
        pairs = window * (window + 1) / 2 + (self.length - window) * window
        return 4.0 * BATCH * HEADS * self.depth * pairs

    def hidden(self) -> torch.Tensor:
        """The keys that a query does not see."""
        row = torch.arange(self.length, device=DEVICE)
        before = row[:, None] - row
        return (before < 0) | (before >= (self.window or self.length))

    def tensors(self) -> list[torch.Tensor]:
        """Queries, keys, values and what is added to the scores."""
        heads = [HEADS, HEADS // self.shared, HEADS // self.shared]
        made = [random(BATCH, each, self.length, self.depth) for each in heads]
        return [*made, random(self.length, self.length)]

    def truth(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """In float64, one head after the other."""
        q, k, v, bias = tensors
        hidden = self.hidden()
        result = torch.empty_like(q, dtype=torch.float64)
        for batch in range(BATCH):
            for head in range(HEADS):
                keys, values = (each[batch, head // self.shared].double() for each in (k, v))
                scores = q[batch, head].double() @ keys.T * self.depth**-0.5
                if self.biased:
                    scores += bias
                result[batch, head] = scores.masked_fill_(hidden, -math.inf).softmax(1) @ values
        return result

    def ours(self, tensors: list[torch.Tensor]) -> dict[str, Ours]:
        """Our kernel, exact and approximate."""
        return exact_and_approximate(
            fused.attention,
            *tensors,
            torch.empty_like(tensors[0]),
            sizes=SIZES if self.depth <= DEPTH else DEEP_SIZES,
            truth=lambda: self.truth(tensors),
            allowed=PEER_ERROR,
            D=self.depth,
            SHARED=self.shared,
            WINDOW=self.window,
            BIASED=self.biased,
        )

    def peers(self, tensors: list[torch.Tensor]) -> dict[str, Call]:
        """PyTorch's of the backends that can."""
        q, k, v, bias = tensors
        mask = None
        if self.window or self.biased:
            added = bias if self.biased else torch.zeros_like(bias)
            mask = added.masked_fill(self.hidden(), -math.inf)[None, None]

        def by(backend: SDPBackend) -> Call:
            def call() -> torch.Tensor:
                with sdpa_kernel(backend):
                    return torch.nn.functional.scaled_dot_product_attention(
                        q, k, v, mask, is_causal=mask is None, enable_gqa=self.shared > 1
                    )

            call()
            return call

        return others(
            cuDNN=lambda: by(SDPBackend.CUDNN_ATTENTION),
            FlashAttention=lambda: by(SDPBackend.FLASH_ATTENTION),
            masked=lambda: by(SDPBackend.EFFICIENT_ATTENTION),
        )


VARIANTS = [
    Variant("16 heads on 4 of keys", shared=4),
    Variant("window of 1024", window=1024),
    Variant("added bias", biased=True),
    Variant("S 4000", length=4000),
    Variant("D 256", depth=256),
]


def plain_attention() -> dict[str, Ours]:
    """Our plain causal attention, exact and approximate."""
    q, k, v = (random(BATCH, HEADS, LENGTH, DEPTH) for _ in range(3))
    return exact_and_approximate(
        ours.attention_bf16,
        *(q, k, v, torch.empty_like(q)),
        sizes=SIZES,
        truth=lambda: attention_truth(q, k, v, True),
        allowed=PEER_ERROR,
        D=DEPTH,
        CAUSAL=True,
    )


def variant_rows(quick: bool) -> Iterator[Case]:
    """Each beside the plain one of its accuracy, whose time is scaled to as many useful operations."""
    plain = plain_attention()
    work = Variant("").work
    for variant in VARIANTS[:2] if quick else VARIANTS:
        tensors = variant.tensors()
        mine, peers = variant.ours(tensors), variant.peers(tensors)
        for kind, beside in plain.items():
            name = f"attention bf16 causal, {variant.name}{kind}"
            yield Case(
                name,
                variant.work,
                "TFLOP/s",
                {"": mine[kind]},
                {PLAIN: beside.call, **peers},
                scales={PLAIN: variant.work / work},
            )
