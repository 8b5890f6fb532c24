"""Arguments described on the command line."""

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.cli.described import constant, grid, value

TYPES = ", ".join(sorted([*(each.text for each in tile.DType), "bool"]))


@pytest.mark.parametrize(
    "text, dtype, shape, strides",
    [
        ("x=f32[8,16]", np.float32, (8, 16), (64, 4)),
        ("x=f32[8,16]:1,8", np.float32, (8, 16), (4, 32)),
        ("x=bf16[4]", ml_dtypes.bfloat16, (4,), (2,)),
        ("x=fp8[4, 2]", ml_dtypes.float8_e4m3fn, (4, 2), (2, 1)),
        ("x=mask[3]", np.bool_, (3,), (1,)),
        ("x=bool[3]", np.bool_, (3,), (1,)),
        ("x=i64[2,3]:-3,1", np.int64, (2, 3), (-24, 8)),
        ("x=f16[8]:0", np.float16, (8,), (0,)),
        ("x=u8[0,4]", np.uint8, (0, 4), (4, 1)),
        ("x=f32[100000,100000]", np.float32, (100000, 100000), (400000, 4)),
    ],
)
def test_tensors(text, dtype, shape, strides):
    name, tensor = value(text)
    assert name == "x"
    assert (tensor.dtype, tensor.shape) == (np.dtype(dtype), shape)
    assert 0 in shape or tensor.strides == strides


def test_tensors_do_not_overlap():
    one, other = value("x=f32[1024,1024]")[1], value("y=f32[1024,1024]")[1]
    assert not np.may_share_memory(one, other)


@pytest.mark.parametrize(
    "text, expected",
    [("n=5", 5), ("n=-2", -2), ("s=0.5", 0.5), ("m=None", None), ("m=True", True), ("m=fast", "fast")],
)
def test_numbers_and_constants_among_arguments(text, expected):
    assert value(text)[1] == expected


@pytest.mark.parametrize(
    "text, expected",
    [("BM=64", 64), ("mode=causal", "causal"), ("D=bf16", tile.BF16), ("S=(1, 2)", (1, 2)), ("E=a=b", "a=b")],
)
def test_constants(text, expected):
    assert constant(text)[1] == expected


def test_grids():
    assert grid("8") == (8,)
    assert grid("8,4") == (8, 4)


@pytest.mark.parametrize(
    "parse, text, message",
    [
        (value, "x", "x: write NAME=VALUE, such as x=f32[1024]"),
        (value, "1x=f32[4]", "1x=f32[4]: write NAME=VALUE, such as x=f32[1024]"),
        (
            value,
            "x=quad[4]",
            f"x=quad[4]: no type 'quad'; types are {TYPES}",
        ),
        (value, "x=fp32[4]", "x=fp32[4]: no type 'fp32'; did you mean f32 or u32?; types are bf16, "),
        (value, "x=f32[99999999999999]", "x=f32[99999999999999]: no computer has addresses for"),
        (value, f"x=f32[{10**30}]", f"x=f32[{10**30}]: no computer has addresses for that many bytes"),
        (value, "x=f32[4,4]:1", "x=f32[4,4]:1: 2 sizes but 1 strides"),
        (value, "x=[1]", "x=[1]: an argument is a tensor such as f32[8,16], or a number"),
        (constant, "BM", "BM: write NAME=VALUE, such as BM=64"),
        *(
            (grid, text, f"{text}: a grid is 1 to 3 sizes, such as 8,4")
            for text in ("a", "", "1,2,3,4", "-1")
        ),
    ],
)
def test_mistakes(parse, text, message):
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)
