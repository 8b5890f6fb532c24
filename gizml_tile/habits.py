"""Words of NumPy, PyTorch and Triton that people write by habit, and what to write here instead.

Loaded when a name is not found, never before. ``{it}`` stands for what the name was asked of.
"""

from __future__ import annotations

from collections.abc import Mapping


def _table(words: Mapping[str, str]) -> dict[str, str]:
    """A table in which each word of a key has the key's advice."""
    return {word: advice for key, advice in words.items() for word in key.split()}


_CONVERT = "{it}.to(tile.BF16) converts the values to a storage type"
_RUN_TIME = (
    "its values are known only when the kernel runs: store them in an output, C[i, j] = {it}, or see them "
    "with p.print({it})"
)
_SIZES = "its sizes are {it}.shape"
_SHAPES = "{it}.reshape([rows, columns]) gives it another shape"
_STRETCH = "sizes of 1 stretch by themselves beside others; {it}.broadcast_to([rows, columns]) asks for it"
_TWO_AXES = "a tile always has two axes, and what is taken along one leaves it as size 1"
_IMMUTABLE = "a tile never changes and needs no copy"
_CHOOSE = "mask.select(yes, no) chooses by a mask, as in ({it} > 0).select({it}, 0)"
_TRANSPOSE = "{it}.T has rows and columns exchanged"
_BITS = "{it}.bitcast(dtype) gives the same bits as another type"
_OF_SUM = (
    "write it with {it}.sum(axis) and the size of the tensor, x.shape[axis]; that of {it} also counts what "
    "lies past the tensor's end"
)
_BLOCKS = "read a block with A = p.read(tensor, [rows, columns]), then A[i, k]"
_STORES = "store a block with C = p.write(tensor, [rows, columns]), then C[i, j] = tile"
_THREADS = (
    "a program is written for a whole block of the result, and the library divides it among threads; "
    "p.id(axis) is the block's number"
)
_NO_BARRIER = "a program needs no barriers and no workgroup memory of its own: the library places them"

# Functions of NumPy and PyTorch whose method is called otherwise here.
FUNCTIONS = _table(
    {
        "absolute fabs": "abs",
        "negative": "neg",
        "fmax": "maximum",
        "fmin": "minimum",
        "amax": "max",
        "amin": "min",
        "invert": "not_",
        "rint nearbyint": "round",
        "special_erf": "erf",
        "expit": "sigmoid",
        "sgn": "sign",
        "fix": "trunc",
        "subtract": "sub",
        "multiply": "mul",
        "divide true_divide": "div",
        "floor_divide": "floordiv",
        "remainder": "mod",
        "power": "pow",
        "less": "lt",
        "greater": "gt",
        "equal": "eq",
        "not_equal": "ne",
    }
)


def _arctangent(of: str, times: int = 1) -> str:
    """Three times the tangent of half of the angle, which leaves at most pi/16 of it, then four terms."""
    return (
        f"write h = lambda t: t / (1 + (1 + t * t).sqrt()), then t = h(h(h({of}))), then "
        f"{8 * times} * (t - t**3 / 3 + t**5 / 5 - t**7 / 7) (within 2^-20 of it)"
    )


# Functions that are made of those that are there: tests compute what is written here.
_MATHEMATICS = {
    "log10": "write {it}.log() * (1 / math.log(10))",
    "exp10": "write 10 ** {it}",
    "tan": "write {it}.sin() / {it}.cos()",
    "sincos": "write {it}.sin(), {it}.cos()",
    "sinh": "write e = abs({it}).expm1(), then (e + e / (e + 1)).copysign({it}) / 2",
    "cosh": "write e = abs({it}).exp(), then (e + 1 / e) / 2",
    "atan arctan": _arctangent("{it}"),
    "asin arcsin": _arctangent("{it} / ((1 - {it}) * (1 + {it})).sqrt()"),
    "atan2 arctan2": _arctangent("{it} / (y + ({it} * {it} + y * y).sqrt())", 2),
    "acos arccos": _arctangent("((1 - {it}) / (1 + {it})).sqrt()", 2),
    "asinh arcsinh": (
        "write a = abs({it}), then (a + a * a / (1 + (1 + a * a).sqrt())).log1p().copysign({it})"
    ),
    "acosh arccosh": "write d = {it} - 1, then (d + (d * ({it} + 1)).sqrt()).log1p()",
    "atanh arctanh": "write (2 * {it} / (1 - {it})).log1p() / 2",
    "cbrt": "write (abs({it}) ** (1 / 3)).copysign({it})",
    "hypot": "write ({it} * {it} + y * y).sqrt()",
    "erfc": "write 1 - {it}.erf()",
    "logsigmoid log_sigmoid log_expit": "write -(-{it}).softplus()",
    "logaddexp": "write {it}.maximum(y) + (-abs({it} - y)).exp().log1p()",
    "log_softmax": "write e = {it} - {it}.max(1), then e - e.exp().sum(1).log()",
    "relu6": "write {it}.clamp(0, 6)",
    "leaky_relu": "write {it}.maximum(0) + 0.01 * {it}.minimum(0)",
    "elu": "write {it}.maximum(0) + {it}.minimum(0).expm1()",
    "mish": "write {it} * {it}.softplus().tanh()",
    "hardswish": "write {it} * ({it} + 3).clamp(0, 6) / 6",
    "ldexp scalbn": "write {it} * 2**y",
    "frac fract": "write {it} - {it}.trunc()",
    "nan_to_num": "write {it}.isnan().select(0, {it})",
    "fmod": "write {it}.rem(y)",
    "ex2": "write {it}.exp2(approx=True)",
    "lg2": "write {it}.log2(approx=True)",
    "rcp": "write {it}.reciprocal(approx=True)",
}

TILE = _table(
    {
        "astype cast type float half int double bfloat16 bool": _CONVERT,
        "item tolist numpy cpu cuda get data value": _RUN_TIME,
        "size dim rank nelement numel ndim ndimension": _SIZES,
        "flatten ravel resize reshape_as": _SHAPES,
        "expand repeat broadcast expand_as tile": _STRETCH,
        "squeeze unsqueeze expand_dims": _TWO_AXES,
        "copy clone contiguous detach fill fill_ zero_ add_ mul_": _IMMUTABLE,
        "where masked_fill choose": _CHOOSE,
        "t trans permute swapaxes mT H mH": _TRANSPOSE,
        "view": (
            "{it}.reshape([rows, columns]) gives it another shape; {it}.bitcast(dtype) gives the same bits "
            "as another type"
        ),
        "mean var std average": _OF_SUM,
        "matmul mm bmm": "write {it} @ other, or {it}.dot(other)",
        "cat stack hstack vstack append concatenate join": (
            "{it}.concat(other, axis) puts another tile beside it"
        ),
        "clip": "{it}.clamp(low, high) keeps values between two bounds",
        "square": "write {it} * {it}",
        "argsort": "values, places = {it}.sort(axis) gives where each was",
        "scan": "{it}.associative_scan(function, axis) combines each value with those before it",
        "cumulative_sum": "{it}.cumsum(axis) is the running sum",
        "softmax": "write e = ({it} - {it}.max(1)).exp(), then e / e.sum(1)",
        "logsumexp": "write m = {it}.max(1), then m + ({it} - m).exp().sum(1).log()",
        "norm": "write ({it} * {it}).sum(axis).sqrt()",
        **_MATHEMATICS,
        "logical_and": "write {it} & other, or {it}.and_(other)",
        "logical_or": "write {it} | other, or {it}.or_(other)",
        "logical_not": "write ~{it}, or {it}.not_()",
        "bitwise_and": "write {it} & other",
        "bitwise_or": "write {it} | other",
        "store": "a tile is stored in an output: C = p.write(tensor, block), then C[i, j] = {it}",
        "load": "a tile is read already: its values are computed with as they are",
    }
) | {word: f"write {{it}}.{method}(...)" for word, method in FUNCTIONS.items()}
INDEX = _table(
    {
        "astype cast float int": "{it}.value() makes a tile of it, {it}.value(tile.I32) of integers",
        "item tolist numpy get": "it is known only when the kernel runs; p.print({it}) shows it",
        "shape dtype T": "an index is one integer; {it}.value() makes a [1, 1] tile of it",
        "cdiv ceildiv": "write tile.cdiv({it}, n)",
    }
)
PROGRAM = _table(
    {
        "load get input": _BLOCKS,
        "store put output set": _STORES,
        "arange range": "{it}.iota([1, n], 1) counts 0, 1, ... along the columns; loops are over range(n)",
        "program_id pid block_id index idx": "{it}.id(axis) is the program's number along a grid axis",
        "num_programs grid_dim grid": "{it}.count(axis) is the number of programs along a grid axis",
        "ones empty constant fill tile array": "{it}.full([rows, columns], value) makes a tile of one value",
        "zeros_like full_like ones_like": "{it}.full(x.shape, value) makes a tile of another's shape",
        "where select": "mask.select(yes, no) chooses by a mask",
        "matmul mm": "write a @ b",
        "static_range unroll": "tile.unroll(n) is a loop that Python runs: its body is recorded once a turn",
        "atomic_add atomic_max atomic_min": (
            "outputs have it: C.scatter_add(tile, coordinates), scatter_max, scatter_min"
        ),
        "atomic_cas atomic_xchg lock": (
            "programs of a launch do not wait for each other; scatter_add, scatter_max and scatter_min of "
            "outputs combine what they write"
        ),
        "rand uniform randn normal randint": '{it}.random(seed, offset, shape, "uniform") draws numbers',
        "thread_id tid thread lane lane_id warp_id thread_idx block_dim": _THREADS,
        "sync syncthreads barrier shared alloc shared_memory debug_barrier": _NO_BARRIER,
        "num_warps warp": "{it}.warps(n) sets the number of warps",
        "num_stages stage": "{it}.stages(n) sets the number of stages",
        "static_assert device_assert assert_": (
            "{it}.check(mask, \"text\") checks values at run time; Python's assert checks constants"
        ),
        "device_print printf log": "{it}.print(...) prints values of a program",
        "if_ branch when": "{it}.cond(condition, then, otherwise) branches; in a kernel write `if`",
        "for_ for_range fori_loop while_loop": (
            "{it}.loop(start, stop, inits, body) loops; in a kernel write `for k in range(n):`"
        ),
        "cdiv": "write tile.cdiv(a, b)",
    }
)
INPUT = _table(
    {
        "shape size sizes": (
            "{it}.dim(axis) is the tensor's size along an axis, {it}.block the sizes of a block"
        ),
        "load read get block_at tile": (
            "a block is read with {it}[i, k], at any element with {it}.window([row, column])"
        ),
        "num_blocks nblocks count grid": "{it}.blocks(axis) is the number of blocks along an axis",
        "store put write": "an input is read only; name the tensor in p.write(tensor, block) to store in it",
        "stride": "the library knows the strides; blocks are named by their numbers, {it}[i, k]",
    }
)
OUTPUT = _table(
    {
        "shape size sizes": (
            "{it}.dim(axis) is the tensor's size along an axis, {it}.block the sizes of a block"
        ),
        "store write set": "a block is stored with {it}[i, j] = tile",
        "at window load read gather index": (
            "an output is not read; A = p.read(tensor, block) reads the same tensor"
        ),
        "atomic_add add index_add": "{it}.scatter_add(tile, coordinates) adds to what is there",
        "num_blocks nblocks count grid": "{it}.blocks(axis) is the number of blocks along an axis",
    }
)
TENSOR = _table(
    {
        "size dim numel stride strides": "its sizes are {it}.shape[axis], its number of dimensions {it}.ndim",
    }
)
KERNEL = _table(
    {
        "run launch warmup": "a kernel is launched by calling it: {it}(...)",
        "ptx asm code cuda": '{it}.source(..., kind="cuda") gives the text of a device\'s code',
        "plan": "{it}.explain(...) gives the plan",
        "check": "{it}.simulate(...).findings tells what is wrong on a device",
    }
)
MODULE = _table(
    {
        "jit kernel_function program func": "@tile.kernel makes a function a kernel",
        "autotune": "@tile.kernel(configs=[...]) chooses among configurations",
        "constexpr": "parameters after a * are compile-time constants: def kernel(p, x, *, BLOCK=128)",
        "arange iota": "p.iota([1, n], 1) counts 0, 1, ... along the columns",
        "load read": _BLOCKS,
        "store write": _STORES,
        "program_id pid id": "p.id(axis) is the program's number along a grid axis",
        "num_programs": "p.count(axis) is the number of programs along a grid axis",
        "zeros full random": "the program makes tiles: p.zeros([rows, columns]), p.full, p.iota, p.random",
        "ones empty": "p.full([rows, columns], value) makes a tile of one value",
        "range arange_": "loops are over Python's range(n)",
        "static_range": "tile.unroll(n) is a loop that Python runs: its body is recorded once a turn",
        "where": "mask.select(yes, no) chooses by a mask, also written `yes if mask else no`",
        "cat": "x.concat(other, axis) puts one tile beside another",
        "float32 fp32 f32 single": "the storage type is tile.F32",
        "float16 fp16 f16 half": "the storage type is tile.F16",
        "bfloat16 bf16": "the storage type is tile.BF16",
        "float8e4nv float8_e4m3fn fp8 e4m3": "the storage type is tile.FP8",
        "int32 i32": "the storage type is tile.I32",
        "int64 i64": "the storage type is tile.I64",
        "int8 i8": "the storage type is tile.I8",
        "uint8 u8": "the storage type is tile.U8",
        "int1 bool mask": "the storage type is tile.MASK",
        "Config": (
            "a configuration is a dict of constants: @tile.kernel(configs=[{{'BM': 64}}, {{'BM': 128}}])"
        ),
    }
)
# What a keyword of another system's function is called here.
KEYWORDS = _table(
    {
        "dim axes": "axis",
        "other padding": "pad",
        "fill_value": "value",
        "size": "shape",
        "block_shape shape": "block",
        "bitcast": "dtype",
        "num_warps": "warps",
        "num_stages": "stages",
    }
)
# Keywords that have no place here at all, with the reason.
NEEDLESS = _table(
    {
        "keepdims keepdim keep_dims": "the axis always stays, as size 1",
        "out": "a tile never changes; results are new tiles",
        "allow_tf32 input_precision": 'write precision="tf32"',
        "mask": "a mask is given where a block is taken: A.at([i, k], mask=m), or A.window, A.gather",
        "boundary_check eviction_policy cache_modifier": "the library does that by itself",
    }
)
