"""The tile IR run by NumPy, one program of the grid after the other: what a program means.

Mode "exact" rounds to F32 (or F64) after each operation, as every device does; functions such as exp are the
true value rounded once, and sums are exact before their one rounding. Mode "float64" does not round
floats at all except where the program converts with ``to``.
"""

from __future__ import annotations

import math
from itertools import product

import doubles
import ml_dtypes
import numpy as np
from philox import tile_of

from gizml_tile.dtypes import E5M2, F16, F32, F64, FP8, I64, MASK, U64, integer_range, to_numpy
from gizml_tile.nodes import COMPARISONS, EARLY, REDUCTIONS, Reflow, places
from gizml_tile.rounding import round_to


def interpret(program, tensors, grid, scalars=(), mode="exact"):
    """Run a program over a grid; the arrays of the tensors that it writes, one for each ``write``.

    In mode "exact" the given arrays are written in place; in mode "float64" copies of them are.
    """
    arrays = list(tensors)
    if mode == "float64":
        arrays = [_widened(array) for array in arrays]
    sizes = tuple(grid) + (1,) * (3 - len(grid))
    with np.errstate(all="ignore"):
        for z, y, x in product(range(sizes[2]), range(sizes[1]), range(sizes[0])):
            run = _Run(program, arrays, sizes, (x, y, z), scalars, mode)
            run.region(program.body)
    return [arrays[number] for number in program.writes]


def _widened(array):
    if array.dtype.kind in "fV":
        return (
            array.astype(np.float32).astype(np.float64)
            if array.dtype.kind == "V"
            else array.astype(np.float64)
        )
    return array.copy()


def interpret_values(program, nodes, tensors=(), grid=(1,), scalars=()):
    """The values of nodes of the body in the first program of a grid."""
    run = _Run(program, list(tensors), tuple(grid) + (1,) * (3 - len(grid)), (0, 0, 0), scalars, "exact")
    with np.errstate(all="ignore"):
        run.region(program.body)
    return [run.values[node] for node in nodes]


def fused_multiply_add(a, b, c):
    """a * b + c in F32, or of float64 in F64, with one rounding."""
    if np.result_type(a, b, c) == np.float64:
        return doubles.fused(a, b, c)
    p = a.astype(np.float64) * b.astype(np.float64)
    c = c.astype(np.float64)
    total = p + c
    # What the addition lost, exactly; where it lost something the last bit is made odd, so that
    # rounding to F32 sees on which side of a midpoint the sum is.
    part = total - p
    error = (p - (total - part)) + (c - part)
    finite = np.isfinite(total) & (error != 0)
    bits = total.view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    sticky = np.where(finite & (bits & 1 == 0), bits + np.where(away > 0, 1, -1), bits)
    return sticky.view(np.float64).astype(np.float32)


class _Several:
    """The values of a node that has several, of which the first is its own."""

    def __init__(self, values):
        self.values = values


class _Run:
    def __init__(self, program, arrays, sizes, position, scalars, mode):
        self.program = program
        self.arrays = arrays
        self.sizes = sizes
        self.position = position
        self.scalars = dict(zip(program.scalars, scalars, strict=True))
        self.mode = mode
        self.values = {}

    def real(self, dtype=F32):
        """What floats of a type are held in."""
        return np.float64 if self.mode == "float64" or dtype is F64 else np.float32

    def wide(self, values):
        """Floats in more bits than their type has, where they are rounded to it."""
        more = self.mode == "exact" and values.dtype == np.float64
        return values.astype(np.longdouble if more else np.float64)

    def region(self, region):
        for node in region.nodes:
            args = [self.values.get(arg) for arg in node.args]
            if node.op != "part":
                args = [arg.values[0] if isinstance(arg, _Several) else arg for arg in args]
            self.values[node] = self.node(node, args)
        results = [self.values[result] for result in region.results]
        return [each.values[0] if isinstance(each, _Several) else each for each in results]

    def node(self, node, args):
        method = getattr(self, f"op_{node.op}", None)
        if method is not None:
            return method(node, *args)
        if node.is_index:
            return _wrapped(_INTEGER[node.op](*args), I64)
        if node.op in COMPARISONS:
            result = np.asarray(_COMPARE[node.op](*args))
            return np.broadcast_to(result, node.shape)
        if node.op in REDUCTIONS:
            return self.reduction(node, args[0])
        if node.dtype is MASK:
            return _MASK[node.op](*args)
        if node.dtype.is_integer:
            return self.integers(node, args)
        return self.floats(node, args)

    def op_index(self, node):
        return node.attr

    def op_id(self, node):
        return self.position[node.attr]

    def op_count(self, node):
        return self.sizes[node.attr]

    def op_size(self, node):
        return self.arrays[node.attr[0]].shape[node.attr[1]]

    def op_scalar(self, node):
        value = self.scalars[node.attr]
        return int(value) if node.is_index else np.full((1, 1), value, np.float32).astype(self.real())

    def held(self, values, dtype):
        """Values of a type as this run holds them: integers in int64, U64 in uint64."""
        if dtype is MASK:
            return np.asarray(values, bool)
        return np.asarray(values).astype(self.real(dtype) if dtype.is_float else _whole_type(dtype))

    def op_const(self, node):
        return self.held(np.full(node.shape, node.attr.value), node.dtype)

    def op_iota(self, node):
        numbers = np.indices(node.shape)[node.attr.value]
        return self.converted(numbers.astype(np.int64), I64, node.dtype)

    def op_random(self, node, seed, counters):
        return self.held(tile_of(node.attr.kind, node.shape, counters, int(seed[0, 0])), node.dtype)

    def op_value(self, node, index):
        return self.converted(np.full((1, 1), index, np.int64), I64, node.attr)

    def places(self, view, coordinates):
        """For each axis the positions of a block's elements, and whether they are inside and visible."""
        shape = self.arrays[view.tensor].shape
        leading = len(shape) - len(view.block)
        positions, inside = [], []
        for axis, (size, at) in enumerate(zip(shape, coordinates, strict=True)):
            length = view.block[axis - leading] if axis >= leading else 1
            own = view.own[axis - leading] if axis >= leading else 1
            start = at * own if view.mode == "at" and axis >= leading else at
            # Far outside is outside: keep the numbers small enough for NumPy.
            start = max(min(start, size), -length)
            places = start + np.arange(length)
            positions.append(places)
            inside.append((places >= 0) & (places < size) & (places < start + own))
        return positions, inside

    def op_read(self, node, *coordinates):
        view = node.attr
        array = self.arrays[view.tensor]
        positions, inside = self.places(view, coordinates)
        block = np.full([len(p) for p in positions], view.pad, _host_type(node.dtype, self.real(node.dtype)))
        source = np.ix_(*[p[i] for p, i in zip(positions, inside, strict=True)])
        block[np.ix_(*inside)] = array[source].astype(block.dtype)
        return block.reshape(node.shape)

    def op_put(self, node, tile, *coordinates):
        view = node.attr
        array = self.arrays[view.tensor]
        positions, inside = self.places(view, coordinates)
        dtype = self.program.tensors[view.tensor].dtype
        source = node.args[0].dtype
        if not (self.mode == "float64" and dtype.is_float):
            tile = self.converted(tile, source, dtype)
        tile = np.broadcast_to(tile, view.shape).reshape([len(p) for p in positions])
        target = np.ix_(*[p[i] for p, i in zip(positions, inside, strict=True)])
        array[target] = tile[np.ix_(*inside)].astype(array.dtype)

    def addressed(self, node):
        """For each axis of the tensor the position of each element, and which elements are addressed."""
        found, shape = places(node), node.attr.shape
        sizes = self.arrays[node.attr.tensor].shape
        inside = np.broadcast_to(True if found.mask is None else self.values[found.mask], shape).copy()
        positions = []
        for index, tile, size in zip(found.indices, found.tiles, sizes, strict=True):
            position = np.full(shape, self.values[index], np.int64)
            if tile is not None:
                position += self.values[tile]
            inside &= (position >= 0) & (position < size)
            positions.append(position)
        return tuple(position[inside] for position in positions), inside

    def op_gather(self, node, *_):
        positions, inside = self.addressed(node)
        result = np.full(node.shape, node.attr.pad, _host_type(node.dtype, self.real(node.dtype)))
        result[inside] = self.arrays[node.attr.tensor][positions].astype(result.dtype)
        return result

    def op_element(self, node, *place):
        array = self.arrays[node.attr.tensor]
        inside = all(0 <= at < size for at, size in zip(place, array.shape, strict=True))
        return _wrapped(int(array[place]) if inside else node.attr.pad, I64)

    def op_scatter(self, node, tile, *_):
        positions, inside = self.addressed(node)
        array = self.arrays[node.attr.tensor]
        dtype = self.program.tensors[node.attr.tensor].dtype
        if not (self.mode == "float64" and dtype.is_float):
            tile = self.converted(tile, node.args[0].dtype, dtype)
        values = np.broadcast_to(tile, inside.shape)[inside].astype(array.dtype)
        if not node.attr.combine:
            array[positions] = values
            return
        # One after the other, each rounded to the tensor's type.
        for *place, value in zip(*positions, values, strict=True):
            array[tuple(place)] = _accumulated(node.attr.combine, array[tuple(place)], value)

    def converted(self, values, source, dtype):
        """``values`` of type ``source`` as those of ``dtype``, held as this run holds them."""
        if dtype is MASK or dtype is source:
            return values
        if not dtype.is_float:
            if source.is_float:
                return _truncated(values, dtype)
            return _wrapped(values, dtype)
        if source.is_float:
            return self.rounded(values, dtype)
        if source is MASK:
            return values.astype(self.real(dtype))
        if dtype is F64 or (self.mode == "float64" and dtype is F32):
            return values.astype(np.float64)
        exact = np.vectorize(lambda each: round_to(int(each), dtype), otypes=[np.float64])
        return exact(values).astype(self.real(dtype))

    def rounded(self, values, dtype):
        real = self.real(dtype)
        if dtype in (F32, F64):
            return values.astype(real)
        if dtype is F16:
            return values.astype(np.float16).astype(real)
        if values.dtype == np.float64 and self.mode == "exact":
            # By way of float32 it would round twice.
            return np.vectorize(lambda x: round_to(float(x), dtype), otypes=[real])(values)
        narrow = values.astype(np.float32)
        if dtype is FP8:
            clipped = np.clip(narrow, -448, 448)
            return clipped.astype(ml_dtypes.float8_e4m3fn).astype(real)
        if dtype is E5M2:
            return narrow.astype(ml_dtypes.float8_e5m2).astype(real)
        return narrow.astype(ml_dtypes.bfloat16).astype(real)

    def op_to(self, node, a):
        return self.converted(a, node.args[0].dtype, node.dtype)

    def op_transpose(self, node, a):
        return a.T

    def op_reshape(self, node, a):
        if isinstance(node.attr, Reflow):
            rows, columns = np.ogrid[: node.shape[0], : node.shape[1]]
            number = rows * node.attr.after + columns
            return a[number // node.attr.before % a.shape[0], number % node.attr.before]
        return a.reshape(node.shape)

    def op_slice(self, node, a):
        taken = (node.attr.rows, node.attr.columns)
        rows, columns = (each.start + each.step * np.arange(each.size) for each in taken)
        return a[np.ix_(rows, columns)]

    def op_concat(self, node, a, b):
        return np.concatenate([a, b], node.attr)

    def op_interleave(self, node, a, b):
        return np.stack([a, b], node.attr + 1).reshape(node.shape)

    def op_print(self, node, *values):
        """What is told changes nothing."""

    op_check = op_print

    def op_select(self, node, mask, yes, no):
        if node.is_index:
            return yes if bool(mask[0, 0]) else no
        return np.broadcast_to(np.where(mask, yes, no), node.shape)

    def op_neg(self, node, a):
        if node.is_index:
            return _wrapped(-a, I64)
        return -a if node.dtype.is_float else _wrapped(-a, node.dtype)

    def op_abs(self, node, a):
        if node.is_index:
            return _wrapped(abs(a), I64)
        return np.abs(a) if node.dtype.is_float else _wrapped(np.abs(a), node.dtype)

    def op_not_(self, node, a):
        return ~a if node.dtype is MASK else _wrapped(~a, node.dtype)

    def reduction(self, node, a):
        source = node.args[0].dtype
        if source is MASK:
            if node.op == "sum":
                return a.sum(node.attr, keepdims=True).astype(_whole_type(node.dtype))
            return (a.any if node.op == "max" else a.all)(axis=node.attr, keepdims=True)
        if node.dtype.is_integer:
            result = getattr(np, node.op)(a, axis=node.attr, keepdims=True)
            return _wrapped(result, node.dtype)
        if node.op == "sum":
            return self.wide(a).sum(node.attr, keepdims=True).astype(self.real(node.dtype))
        result = np.take(a, [0], node.attr)
        for number in range(1, a.shape[node.attr]):
            result = _extreme(node.op, result, np.take(a, [number], node.attr))
        return result

    def op_reduce(self, node, *args):
        """The values after the last place; a part takes its own from the node's list."""
        running = self.running(node, args)
        return _Several([each[-1:].swapaxes(0, node.attr.axis) for each in running])

    def op_scan(self, node, *args):
        return _Several([each.swapaxes(0, node.attr.axis) for each in self.running(node, args)])

    def op_sort(self, node, a):
        how = node.attr
        keys = a.astype(object)
        if node.dtype.is_float:
            bits = a.astype(np.float64).view(np.int64)
            keys = np.where(bits < 0, -(bits & (2**63 - 1)) - 1, bits).astype(object)
        keys = -keys if how.descending else keys
        if node.dtype.is_float:
            keys[np.isnan(a)] = 2**70
        where = np.argsort(keys, how.axis, kind="stable")
        where = np.take(where, range(how.keep), how.axis)
        return _Several([np.take_along_axis(a, where, how.axis), where.astype(np.int64)])

    def op_histogram(self, node, a):
        counted = a[(a >= 0) & (a < node.attr)]
        return np.bincount(counted, minlength=node.attr)[None].astype(np.int64)

    def op_part(self, node, whole):
        return whole.values[node.attr]

    def running(self, node, args):
        """Running values along the axis, which comes first, one place after the other."""
        step = -1 if node.attr.reverse else 1
        places = [np.swapaxes(arg, 0, node.attr.axis)[::step] for arg in args]
        values = [[place[:1] for place in places]]
        for number in range(1, len(places[0])):
            late = [place[number : number + 1] for place in places]
            values.append(self.function(node.attr.function, [*values[-1], *late]))
        return [np.concatenate(each)[::step] for each in zip(*values, strict=True)]

    def function(self, function, args):
        known = dict(zip(function.params, args, strict=True))
        for node in function.nodes:
            known[node] = self.elements(node, [known[arg] for arg in node.args], args[0].shape)
        return [np.broadcast_to(known[result], args[0].shape) for result in function.results]

    def elements(self, node, args, shape):
        """A node of [1, 1] tiles on elements of a shape."""
        if node.op == "const":
            return self.op_const(node)
        if node.op in COMPARISONS:
            return np.broadcast_to(np.asarray(_COMPARE[node.op](*args)), shape)
        if node.op == "select":
            return np.broadcast_to(np.where(*args), shape)
        return self.node(node, args)

    def op_bitcast(self, node, a):
        source = node.args[0].dtype
        return self.held(a.astype(to_numpy(source)).view(to_numpy(node.dtype)), node.dtype)

    def op_mulhi(self, node, a, b):
        if node.attr or node.dtype.is_unsigned:
            a, b = a & 0xFFFFFFFF, b & 0xFFFFFFFF
            product = a.astype(np.uint64) * b.astype(np.uint64)
            return _wrapped((product >> np.uint64(32)).view(np.int64), node.dtype)
        return _wrapped(a * b >> 32, node.dtype)

    def integers(self, node, args):
        if node.op in ("popcount", "clz"):
            bits = node.dtype.bits
            patterns = [int(each) % (1 << bits) for each in args[0].ravel()]
            ones, zeros = (
                [each.bit_count() for each in patterns],
                [bits - each.bit_length() for each in patterns],
            )
            return np.reshape(ones if node.op == "popcount" else zeros, args[0].shape)
        # Beside int64, uint64 would become float64.
        a, b = (each.astype(_whole_type(node.dtype)) for each in args)
        function = _INTEGER[node.op]
        if node.op in ("div", "rem", "floordiv", "floormod", "shl", "shr"):
            bits = node.dtype.bits
            elements = np.vectorize(
                lambda x, y: _narrow(function(int(x), int(y), bits), node.dtype),
                otypes=[_whole_type(node.dtype)],
            )
            return elements(a, b)
        return _wrapped(function(a, b), node.dtype)

    def floats(self, node, args):
        if node.op in ("maximum", "minimum"):
            return _extreme("max" if node.op == "maximum" else "min", *np.broadcast_arrays(*args))
        if node.op == "relu":
            return _extreme("max", *np.broadcast_arrays(args[0], args[0].dtype.type(0)))
        if node.op == "pow":
            return np.power(*map(self.wide, np.broadcast_arrays(*args))).astype(self.real(node.dtype))
        if node.op == "rsqrt":
            return args[0].dtype.type(1) / np.sqrt(args[0])
        if node.op in _FUNCTIONS:
            return _FUNCTIONS[node.op](self.wide(args[0])).astype(self.real(node.dtype))
        return _FLOAT[node.op](*args)

    def op_fma(self, node, a, b, c):
        negate_product, negate_c = node.attr
        a = -a if negate_product else a
        c = -c if negate_c else c
        if self.mode == "float64":
            return a * b + c
        return fused_multiply_add(*np.broadcast_arrays(a, b, c))

    def op_dot(self, node, a, b, c=None):
        if node.dtype.is_integer:
            total = a @ b if c is None else c + a @ b
            return _wrapped(total, node.dtype)
        if self.mode == "float64":
            return a @ b if c is None else c + a @ b
        total = np.zeros(node.shape, self.real(node.dtype)) if c is None else c
        for k in range(a.shape[1]):
            total = fused_multiply_add(*np.broadcast_arrays(a[:, k : k + 1], b[k : k + 1, :], total))
        return total

    def op_loop(self, node, start, stop, step, *carried):
        (region,) = node.regions
        carried = list(carried)
        for k in range(start, stop, step) if step else ():
            if node.attr == EARLY and not carried[-1]:
                break
            for param, value in zip(region.params, [k, *carried], strict=True):
                self.values[param] = value
            carried = self.region(region)
        return carried

    def op_cond(self, node, mask):
        return self.region(node.regions[0 if bool(mask[0, 0]) else 1])

    def op_result(self, node, values):
        return values[node.attr]


def _accumulated(op, old, value):
    """What memory holds after an element came to it, in the memory's type."""
    if op == "add":
        with np.errstate(all="ignore"):
            return old + value
    return _extreme(op, np.asarray(old).astype(np.float64 if old.dtype.kind in "fV" else old.dtype), value)


def _host_type(dtype, real):
    return np.bool_ if dtype is MASK else real if dtype.is_float else _whole_type(dtype)


def _whole_type(dtype):
    """What integers of a type are held in."""
    return np.uint64 if dtype is U64 else np.int64


def _narrow(value, dtype):
    low, high = integer_range(dtype)
    return (value - low) % (high - low + 1) + low


def _wrapped(values, dtype):
    """Integers wrapped into a type (a Python integer stays one)."""
    if isinstance(values, int):
        return _narrow(values, dtype)
    return values.astype(to_numpy(dtype)).astype(_whole_type(dtype))


def _truncated(values, dtype):
    low, high = integer_range(dtype)
    exact = np.vectorize(
        lambda x: (
            0 if math.isnan(x) else (low if x < 0 else high) if math.isinf(x) else min(max(int(x), low), high)
        ),
        otypes=[_whole_type(dtype)],
    )
    return exact(values.astype(np.float64))


def _extreme(op, a, b):
    """The larger or smaller element: a NaN loses, -0 is smaller than +0."""
    first = (a > b) | ((a == b) & ~np.signbit(a)) if op == "max" else (a < b) | ((a == b) & np.signbit(a))
    if a.dtype.kind in "iu":
        return np.maximum(a, b) if op == "max" else np.minimum(a, b)
    chosen = np.where(first, a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen))


def _quotient(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


def _gelu(x):
    if x.dtype == np.longdouble:
        return doubles.gelu(x)
    inner = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.where(x == -np.inf, -0.0, x * _sigmoid(inner))


def _gelu_erf(x):
    if x.dtype == np.longdouble:
        return doubles.gelu_erf(x)
    tail = np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2))
    return np.where(x == -np.inf, -0.0, 0.5 * x * tail)


def _erf(x):
    if x.dtype == np.longdouble:
        return doubles.erf(x)
    return np.vectorize(math.erf, otypes=[np.float64])(x)


_COMPARE = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_MASK = {"and_": np.logical_and, "or_": np.logical_or, "xor": np.logical_xor}
_INTEGER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b, bits=64: _quotient(a, b),
    "rem": lambda a, b, bits=64: a - _quotient(a, b) * b if b else 0,
    "floordiv": lambda a, b, bits=64: a // b if b else 0,
    "floormod": lambda a, b, bits=64: a % b if b else 0,
    "maximum": lambda a, b: max(a, b) if isinstance(a, int) else np.maximum(a, b),
    "minimum": lambda a, b: min(a, b) if isinstance(a, int) else np.minimum(a, b),
    "and_": lambda a, b: a & b,
    "or_": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b, bits: a << b if 0 <= b < bits else 0,
    "shr": lambda a, b, bits: a >> (b if 0 <= b < bits else bits),
}
_FLOAT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "reciprocal": lambda a: a.dtype.type(1) / a,
    "rem": np.fmod,
    "floormod": np.mod,
}
_FUNCTIONS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "gelu": _gelu,
    "gelu_erf": _gelu_erf,
    "log2": np.log2,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "erf": _erf,
    "silu": lambda x: np.where(x == -np.inf, -0.0, x * _sigmoid(x)),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
}
