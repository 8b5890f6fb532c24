"""The intrinsic functions that the text may call: what they take and give, and which GPUs have them.

LLVM itself stops the process where an architecture lacks an intrinsic, and takes a misspelt one for a
function of somebody else's. So every call is looked up here first. The matrix intrinsics are in LLVM's
``IntrinsicsAMDGPU.td``; BF16 operands are vectors of i16 for all but gfx950's own, which take bfloat.
"""

from __future__ import annotations

from dataclasses import dataclass

_CDNA = frozenset(("gfx90a", "gfx942", "gfx950"))
_GFX11 = frozenset(("gfx1100", "gfx1151"))
_GFX12 = frozenset(("gfx1200", "gfx1201"))
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201")
_ALL = frozenset(ARCHS)


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """The type of the result and of each operand, and the architectures that have it."""

    result: str
    operands: tuple[str, ...]
    archs: frozenset[str] = _ALL

    def declaration(self, name: str) -> str:
        """The line that declares it."""
        return f"declare {self.result} @{name}({', '.join(self.operands)})"


def _mfma(operand: str, sums: str, archs: frozenset[str]) -> Intrinsic:
    return Intrinsic(sums, (operand, operand, sums, "i32", "i32", "i32"), archs)


def _wmma(operand: str, archs: frozenset[str]) -> Intrinsic:
    return Intrinsic("<8 x float>", (operand, operand, "<8 x float>"), archs)


def _signed_wmma(operand: str, archs: frozenset[str]) -> Intrinsic:
    """With a flag before each operand, whether it has a sign, and one for saturation."""
    sums = "<8 x i32>"
    return Intrinsic(sums, ("i1", operand, "i1", operand, sums, "i1"), archs)


_FLOATS = {"f32": "float", "f64": "double"}
_UNARY = Intrinsic("float", ("float",))
_FOUR, _SIXTEEN = "<4 x float>", "<16 x float>"
_FROM_942 = frozenset(("gfx942", "gfx950"))
_950 = frozenset(("gfx950",))
_FLOAT_BYTES = ("fp8.fp8", "bf8.bf8", "fp8.bf8", "bf8.fp8")

_GENERIC = {
    **{f"fma.{suffix}": Intrinsic(kind, (kind,) * 3) for suffix, kind in _FLOATS.items()},
    **{f"fabs.{suffix}": Intrinsic(kind, (kind,)) for suffix, kind in _FLOATS.items()},
    **{
        f"{name}.{suffix}": Intrinsic(kind, (kind,) * 2)
        for name in ("minnum", "maxnum")
        for suffix, kind in _FLOATS.items()
    },
    "sqrt.f64": Intrinsic("double", ("double",)),
    "exp2.f32": _UNARY,
    "log2.f32": _UNARY,
    **{
        f"{name}.i{width}": Intrinsic(f"i{width}", (f"i{width}",) * 2)
        for name in ("smin", "smax", "umin", "umax")
        for width in (32, 64)
    },
    **{f"ctpop.i{width}": Intrinsic(f"i{width}", (f"i{width}",)) for width in (32, 64)},
    **{f"ctlz.i{width}": Intrinsic(f"i{width}", (f"i{width}", "i1")) for width in (32, 64)},
    **{f"abs.i{width}": Intrinsic(f"i{width}", (f"i{width}", "i1")) for width in (32, 64)},
    **{
        f"fpto{sign}i.sat.i{width}.f32": Intrinsic(f"i{width}", ("float",))
        for sign in "su"
        for width in (8, 16, 32, 64)
    },
    **{
        f"fpto{sign}i.sat.i{width}.f64": Intrinsic(f"i{width}", ("double",))
        for sign in "su"
        for width in (32, 64)
    },
}
_OWN = {
    "workitem.id.x": Intrinsic("i32", ()),
    **{f"workgroup.id.{axis}": Intrinsic("i32", ()) for axis in "xyz"},
    "dispatch.ptr": Intrinsic("ptr addrspace(4)", ()),
    # Without a suffix every version takes it: newer ones complete the name.
    "readfirstlane": Intrinsic("i32", ("i32",)),
    "s.barrier": Intrinsic("void", ()),
    "wave.barrier": Intrinsic("void", ()),
    "sched.barrier": Intrinsic("void", ("i32",)),
    "ds.bpermute": Intrinsic("i32", ("i32", "i32")),
    "ds.swizzle": Intrinsic("i32", ("i32", "i32")),
    "sqrt.f32": _UNARY,
    "rcp.f32": _UNARY,
    "rsq.f32": _UNARY,
    "sin.f32": _UNARY,
    "cos.f32": _UNARY,
    "mfma.f32.16x16x4f32": _mfma("float", _FOUR, _CDNA),
    "mfma.f32.32x32x2f32": _mfma("float", _SIXTEEN, _CDNA),
    "mfma.f64.16x16x4f64": _mfma("double", "<4 x double>", _CDNA),
    "mfma.f32.16x16x16f16": _mfma("<4 x half>", _FOUR, _CDNA),
    "mfma.f32.32x32x8f16": _mfma("<4 x half>", _SIXTEEN, _CDNA),
    "mfma.f32.16x16x16bf16.1k": _mfma("<4 x i16>", _FOUR, _CDNA),
    "mfma.f32.32x32x8bf16.1k": _mfma("<4 x i16>", _SIXTEEN, _CDNA),
    "mfma.f32.16x16x32.f16": _mfma("<8 x half>", _FOUR, _950),
    "mfma.f32.32x32x16.f16": _mfma("<8 x half>", _SIXTEEN, _950),
    "mfma.f32.16x16x32.bf16": _mfma("<8 x bfloat>", _FOUR, _950),
    "mfma.f32.32x32x16.bf16": _mfma("<8 x bfloat>", _SIXTEEN, _950),
    **{f"mfma.f32.16x16x32.{pair}": _mfma("i64", _FOUR, _FROM_942) for pair in _FLOAT_BYTES},
    **{f"mfma.f32.32x32x16.{pair}": _mfma("i64", _SIXTEEN, _FROM_942) for pair in _FLOAT_BYTES},
    "mfma.f32.16x16x8.xf32": _mfma("<2 x float>", _FOUR, frozenset(("gfx942",))),
    "mfma.i32.16x16x16i8": _mfma("i32", "<4 x i32>", frozenset(("gfx90a",))),
    "mfma.i32.32x32x8i8": _mfma("i32", "<16 x i32>", frozenset(("gfx90a",))),
    "mfma.i32.16x16x32.i8": _mfma("i64", "<4 x i32>", _FROM_942),
    "mfma.i32.32x32x16.i8": _mfma("i64", "<16 x i32>", _FROM_942),
    "mfma.i32.16x16x64.i8": _mfma("<4 x i32>", "<4 x i32>", _950),
    "mfma.i32.32x32x32.i8": _mfma("<4 x i32>", "<16 x i32>", _950),
    "wmma.f32.16x16x16.f16.v8f32.v16f16": _wmma("<16 x half>", _GFX11),
    "wmma.f32.16x16x16.bf16.v8f32.v16i16": _wmma("<16 x i16>", _GFX11),
    "wmma.f32.16x16x16.f16.v8f32.v8f16": _wmma("<8 x half>", _GFX12),
    "wmma.f32.16x16x16.bf16.v8f32.v8i16": _wmma("<8 x i16>", _GFX12),
    **{f"wmma.f32.16x16x16.{pair}.v8f32.v2i32": _wmma("<2 x i32>", _GFX12) for pair in _FLOAT_BYTES},
    "wmma.i32.16x16x16.iu8.v8i32.v4i32": _signed_wmma("<4 x i32>", _GFX11),
    "wmma.i32.16x16x16.iu8.v8i32.v2i32": _signed_wmma("<2 x i32>", _GFX12),
}
INTRINSICS: dict[str, Intrinsic] = {
    **{f"llvm.{name}": each for name, each in _GENERIC.items()},
    **{f"llvm.amdgcn.{name}": each for name, each in _OWN.items()},
}


def intrinsic(name: str, arch: str, operands: tuple[str, ...]) -> Intrinsic:
    """What is known of an intrinsic that is called with operands of some types.

    Raises LookupError where there is none of this name, for this architecture or with such operands.
    """
    found = INTRINSICS.get(name)
    if found is None:
        raise LookupError(f"LLVM IR for AMD GPUs has no intrinsic {name!r}")
    if arch not in found.archs:
        raise LookupError(f"{arch} has no {name}; it is for {', '.join(sorted(found.archs))}")
    if operands != found.operands:
        raise LookupError(f"{name} takes ({', '.join(found.operands)}), not ({', '.join(operands)})")
    return found
