"""Layouts as plain values: which thread holds which element of a tile, and where memory keeps it.

Two forms that convert into each other where both can tell a layout:

- ``Linear``, the form that the compiler uses: places as exclusive or of bases, for sizes that are
  powers of two. ``blocked``, ``conversion``, ``staged`` and ``wavefronts`` belong to it.
- ``Layout``, the algebra of shapes and strides: ``make_layout``, ``composition``, ``logical_divide``
  and the rest. A number is unpacked to a coordinate with the leftmost mode fastest (column-major).

``draw`` shows either in the terminal. Nothing here needs a device.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gizml_tile.layout.algebra import (
        AnyLayout,
        ComposedLayout,
        CoordSwizzle,
        Layout,
        Swizzle,
        coprofile,
        coshape,
        cosize,
        crd2idx,
        get_1d_coord,
        get_flat_coord,
        idx2crd,
        make_composed_layout,
        make_identity_layout,
        make_layout,
        make_layout_like,
        make_ordered_layout,
        size,
    )
    from gizml_tile.layout.banks import Staged, ideal_wavefronts, staged, wavefronts
    from gizml_tile.layout.bridge import from_linear, to_linear
    from gizml_tile.layout.conversions import Conversion, Renaming, Unchanged, conversion
    from gizml_tile.layout.exchange import Access, Exchange
    from gizml_tile.layout.functions import coalesce, complement, composition, left_inverse, right_inverse
    from gizml_tile.layout.linear import Inverse, Linear
    from gizml_tile.layout.modes import (
        append,
        depth,
        dice,
        get_,
        get_shape,
        get_stride,
        group,
        joined,
        prepend,
        rank,
        select,
        slice,
        slice_and_offset,
        take,
    )
    from gizml_tile.layout.pictures import draw
    from gizml_tile.layout.shuffle import Round, Shuffle
    from gizml_tile.layout.spread import blocked, reorder_registers, vector_width
    from gizml_tile.layout.tiling import (
        blocked_product,
        flat_divide,
        flat_product,
        logical_divide,
        logical_product,
        make_layout_tv,
        make_tile,
        raked_product,
        recast_layout,
        tile_to_shape,
        tiled_divide,
        tiled_product,
        zipped_divide,
        zipped_product,
    )
    from gizml_tile.layout.tuples import (
        Basis,
        E,
        IntTuple,
        ceil_div,
        elem_less,
        equal,
        get_leaves,
        int_tuple_add,
        int_tuple_div,
        int_tuple_mod,
        int_tuple_mul,
        int_tuple_product,
        int_tuple_product_each,
        int_tuple_product_like,
        int_tuple_sub,
        make_coord,
        make_int_tuple,
        make_shape,
        make_stride,
        shape_div,
    )
else:
    # The compiler's form comes first, so that a plan loads nothing of the algebra.
    _MODULES = (
        "linear banks spread shuffle exchange conversions "
        "tuples algebra modes functions tiling bridge pictures"
    ).split()

    def __getattr__(name: str) -> Any:
        """A name of a module, which is loaded where first used: a launch of known code needs none."""
        if name in __all__:
            for module in _MODULES:
                found = vars(import_module(f"{__name__}.{module}"))
                if name in found:
                    return globals().setdefault(name, found[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Access",
    "AnyLayout",
    "Basis",
    "ComposedLayout",
    "Conversion",
    "CoordSwizzle",
    "E",
    "Exchange",
    "IntTuple",
    "Inverse",
    "Layout",
    "Linear",
    "Renaming",
    "Round",
    "Shuffle",
    "Staged",
    "Swizzle",
    "Unchanged",
    "append",
    "blocked",
    "blocked_product",
    "ceil_div",
    "coalesce",
    "complement",
    "composition",
    "conversion",
    "coprofile",
    "coshape",
    "cosize",
    "crd2idx",
    "depth",
    "dice",
    "draw",
    "elem_less",
    "equal",
    "flat_divide",
    "flat_product",
    "from_linear",
    "get_",
    "get_1d_coord",
    "get_flat_coord",
    "get_leaves",
    "get_shape",
    "get_stride",
    "group",
    "ideal_wavefronts",
    "idx2crd",
    "int_tuple_add",
    "int_tuple_div",
    "int_tuple_mod",
    "int_tuple_mul",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
    "int_tuple_sub",
    "joined",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_composed_layout",
    "make_coord",
    "make_identity_layout",
    "make_int_tuple",
    "make_layout",
    "make_layout_like",
    "make_layout_tv",
    "make_ordered_layout",
    "make_shape",
    "make_stride",
    "make_tile",
    "prepend",
    "raked_product",
    "rank",
    "recast_layout",
    "reorder_registers",
    "right_inverse",
    "select",
    "shape_div",
    "size",
    "slice",
    "slice_and_offset",
    "staged",
    "take",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "to_linear",
    "vector_width",
    "wavefronts",
    "zipped_divide",
    "zipped_product",
]
