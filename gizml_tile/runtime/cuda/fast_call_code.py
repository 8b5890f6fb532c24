"""The native half of a repeated launch on a GPU, as LLVM text: a Python callable that checks and launches.

It takes PyTorch's tensors as DLPack's C functions give them, compares them with the record of an earlier
call and launches the same kernel where only addresses and free numbers differ; else it gives None. Called
with ``stream=`` and a handle it launches there, else on the stream that PyTorch uses now. The record
starts as that of `gizml_tile.runtime.fast_call_code`, whose arrays are these tensors (list of 10): argument,
type's address, dimensions, DLPack's element type, where sizes and then strides stand, which low bits of the
address are looked at, what they are, word that takes the address, whether it is written, whether it may be a
lazily negated view. Its other words:

==== ==============================================================================================
  17 the driver's function, 18: its context, 19: where 0 stands once the process is forked, 20: the
     device as DLPack has it (kind, number)
  22 the type of integers
  31 tensor maps (list of 3): word with the tensor's address, where the map's 16 words stand, the
     address in it
  33 parameters (list of 2): 1 for a tensor map, number of the map or the word
  35 where the launch's description stands (7 words), 36: where its attributes stand
  37 False, 38: "is_neg", 39: "requires_grad"
  40 DLPack's two functions, the driver's and more of Python's, in the order of `CALLED`
==== ==============================================================================================
"""

from __future__ import annotations

from functools import lru_cache

from ..fast_call_code import (
    APART,
    ARRAYS,
    COUNT,
    HEADER_WORDS,
    WORDS,
    Writer,
    argument,
    compare_objects,
    give_results,
    python_function,
    require_apart,
    take_numbers,
)
from ..objects import BYTES_AT, TUPLE_AT, TYPE_AT

FUNCTION, CONTEXT, LIVE, DEVICE, INTEGER_TYPE = 17, 18, 19, 20, 22
MAPS, PARAMETERS, CONFIG, ATTRIBUTES = HEADER_WORDS, HEADER_WORDS + 2, HEADER_WORDS + 4, HEADER_WORDS + 5
FALSE, IS_NEGATED, NEEDS_GRADIENT = HEADER_WORDS + 6, HEADER_WORDS + 7, HEADER_WORDS + 8
FUNCTIONS = HEADER_WORDS + 9

DLPACK_FUNCTIONS = ("tensor", "stream")
DRIVER_FUNCTIONS = (
    "cuCtxGetCurrent",
    "cuCtxPushCurrent",
    "cuCtxPopCurrent",
    "cuLaunchKernelEx",
    "cuTensorMapReplaceAddress",
)
PYTHON_FUNCTIONS = ("PyObject_GetAttr", "PyObject_VectorcallMethod", "Py_DecRef")
CALLED = DLPACK_FUNCTIONS + DRIVER_FUNCTIONS + PYTHON_FUNCTIONS
RECORD_WORDS = FUNCTIONS + len(CALLED)

CONFIG_WORDS = 7
MAP_WORDS = 16
# Bytes in the driver's CUlaunchConfig.
_STREAM_AT, _ATTRIBUTES_AT = 32, 40
# Bytes in DLPack's DLTensor.
_DATA_AT, _DEVICE_AT, _DIMENSIONS_AT, _TYPE_AT, _SIZES_AT, _STRIDES_AT, _OFFSET_AT = 0, 8, 16, 20, 24, 32, 40
_TENSOR_WORDS = 6


@lru_cache
def gpu_call_text() -> str:
    """The callable, as the METH_FASTCALL | METH_KEYWORDS function ``fast_call(self, args, count, names)``."""
    code = Writer()
    record = code.at(code.load("%self", TUPLE_AT, "ptr"), BYTES_AT)
    code.require_equal("%count", code.word(record, COUNT))
    live = code.value(f"load i64, ptr {code.word(record, LIVE, 'ptr')}")
    code.require(code.value(f"icmp ne i64 {live}, 0"))
    # One word more than the kernel reads, for what it does not want.
    length = code.value(f"add i64 {code.word(record, WORDS)}, 1")
    words = code.value(f"alloca i64, i64 {length}, align 16")
    with code.each(record, WORDS, 1) as (number, item):
        code.line(f"store i64 {code.word(item, 0)}, ptr {code.at(words, number, 'i64')}")
    _take_tensors(code, record, words)
    take_numbers(code, record, words)
    compare_objects(code, record)
    with code.each(record, APART, 6) as (_, item):
        require_apart(code, item, words)
    maps = _place_maps(code, record, words)
    parameters = _point_at_parameters(code, record, words, maps)
    config = _configure(code, record)
    _launch(code, record, config, parameters)
    give_results(code, record)
    header = "define ptr @fast_call(ptr %self, ptr %args, i64 %count, ptr %names) {\nentry:\n"
    return header + "\n".join(code.lines) + "\n}\n"


def _called(code: Writer, record: str, name: str) -> str:
    return code.word(record, FUNCTIONS + CALLED.index(name), "ptr")


def _require_success(code: Writer, record: str, status: str) -> None:
    """Require that a function which may raise did not."""
    with code.when(code.value(f"icmp ne i32 {status}, 0")):
        code.line(f"call void {python_function(code, record, 'PyErr_Clear')}()")
        code.require("false")


def _take_tensors(code: Writer, record: str, words: str) -> None:
    seen = code.value(f"alloca i64, i64 {_TENSOR_WORDS}, align 16")
    self = code.value("alloca ptr")
    device = code.word(record, DEVICE)
    with code.each(record, ARRAYS, 10) as (_, item):
        tensor = argument(code, item)
        code.require_equal(code.load(tensor, TYPE_AT), code.word(item, 1))
        look = _called(code, record, "tensor")
        _require_success(code, record, code.value(f"call i32 {look}(ptr {tensor}, ptr {seen})"))
        code.require_equal(code.load(seen, _DEVICE_AT), device)
        dimensions = code.value(f"zext i32 {code.load(seen, _DIMENSIONS_AT, 'i32')} to i64")
        code.require_equal(dimensions, code.word(item, 2))
        kind = code.value(f"zext i32 {code.load(seen, _TYPE_AT, 'i32')} to i64")
        code.require_equal(kind, code.word(item, 3))
        sizes, strides = code.load(seen, _SIZES_AT, "ptr"), code.load(seen, _STRIDES_AT, "ptr")
        known_sizes = code.at(record, code.word(item, 4), "i64")
        known_strides = code.at(known_sizes, dimensions, "i64")
        with code.counted(dimensions) as axis:
            code.require_equal(code.word(sizes, axis), code.word(known_sizes, axis))
            code.require_equal(code.word(strides, axis), code.word(known_strides, axis))
        start, offset = code.load(seen, _DATA_AT), code.load(seen, _OFFSET_AT)
        address = code.value(f"add i64 {start}, {offset}")
        low = code.value(f"and i64 {address}, {code.word(item, 5)}")
        code.require_equal(low, code.word(item, 6))
        code.line(f"store i64 {address}, ptr {code.at(words, code.word(item, 7), 'i64')}")
        with code.when(code.value(f"icmp ne i64 {code.word(item, 9)}, 0")):
            code.line(f"store ptr {tensor}, ptr {self}")
            call, name = (
                _called(code, record, "PyObject_VectorcallMethod"),
                code.word(record, IS_NEGATED, "ptr"),
            )
            found = code.value(f"call ptr {call}(ptr {name}, ptr {self}, i64 1, ptr null)")
            _require_false(code, record, found)
        with code.when(code.value(f"icmp ne i64 {code.word(item, 8)}, 0")):
            get, name = _called(code, record, "PyObject_GetAttr"), code.word(record, NEEDS_GRADIENT, "ptr")
            _require_false(code, record, code.value(f"call ptr {get}(ptr {tensor}, ptr {name})"))


def _require_false(code: Writer, record: str, found: str) -> None:
    """Require that an object that was made is False."""
    with code.when(code.value(f"icmp eq ptr {found}, null")):
        code.line(f"call void {python_function(code, record, 'PyErr_Clear')}()")
        code.require("false")
    code.line(f"call void {_called(code, record, 'Py_DecRef')}(ptr {found})")
    code.require_equal(found, code.word(record, FALSE, "ptr"), "ptr")


def _place_maps(code: Writer, record: str, words: str) -> str:
    """The tensor maps, each with its tensor's address now."""
    size = code.value(f"mul i64 {code.word(record, MAPS)}, {8 * MAP_WORDS}")
    maps = code.value(f"alloca i8, i64 {size}, align 64")
    with code.each(record, MAPS, 3) as (number, item):
        target = code.at(maps, code.value(f"mul i64 {number}, {8 * MAP_WORDS}"))
        known = code.at(record, code.word(item, 1), "i64")
        kind = f"<{MAP_WORDS} x i64>"
        content = code.value(f"load {kind}, ptr {known}, align 8")
        code.line(f"store {kind} {content}, ptr {target}, align 64")
        address = code.word(words, code.word(item, 0))
        with code.when(code.value(f"icmp ne i64 {address}, {code.word(item, 2)}")):
            replace = _called(code, record, "cuTensorMapReplaceAddress")
            status = code.value(f"call i32 {replace}(ptr {target}, i64 {address})")
            code.require_equal(status, 0, "i32")
    return maps


def _point_at_parameters(code: Writer, record: str, words: str, maps: str) -> str:
    """The list of the parameters' addresses."""
    parameters = code.value(f"alloca ptr, i64 {code.word(record, PARAMETERS)}, align 16")
    with code.each(record, PARAMETERS, 2) as (number, item):
        index = code.word(item, 1)
        is_map = code.value(f"icmp ne i64 {code.word(item, 0)}, 0")
        map_at = code.at(maps, code.value(f"mul i64 {index}, {8 * MAP_WORDS}"))
        word_at = code.at(words, index, "i64")
        place = code.value(f"select i1 {is_map}, ptr {map_at}, ptr {word_at}")
        code.line(f"store ptr {place}, ptr {code.at(parameters, number, 'ptr')}")
    return parameters


def _configure(code: Writer, record: str) -> str:
    """The launch's description, with the stream that it runs on."""
    config = code.value(f"alloca i64, i64 {CONFIG_WORDS}, align 16")
    known = code.at(record, code.word(record, CONFIG), "i64")
    for number in range(CONFIG_WORDS):
        code.line(f"store i64 {code.word(known, number)}, ptr {code.at(config, number, 'i64')}")
    attributes = code.at(record, code.word(record, ATTRIBUTES), "i64")
    code.line(f"store ptr {attributes}, ptr {code.at(config, _ATTRIBUTES_AT)}")
    stream = code.at(config, _STREAM_AT)
    given = code.value("icmp ne ptr %names, null")
    with code.when(given):
        last = code.load("%args", "%count", "ptr", "ptr")
        code.require_equal(code.load(last, TYPE_AT), code.word(record, INTEGER_TYPE))
        read = python_function(code, record, "PyLong_AsLongLong")
        handle = code.value(f"call i64 {read}(ptr {last})")
        with code.when(code.value(f"icmp eq i64 {handle}, -1")):
            code.line(f"call void {python_function(code, record, 'PyErr_Clear')}()")
            code.require("false")
        code.line(f"store i64 {handle}, ptr {stream}")
    with code.when(code.value(f"xor i1 {given}, true")):
        where = code.word(record, DEVICE)
        kind = code.value(f"trunc i64 {where} to i32")
        ordinal = code.value(f"trunc i64 {code.value(f'lshr i64 {where}, 32')} to i32")
        query = _called(code, record, "stream")
        status = code.value(f"call i32 {query}(i32 {kind}, i32 {ordinal}, ptr {stream})")
        _require_success(code, record, status)
    return config


def _launch(code: Writer, record: str, config: str, parameters: str) -> None:
    """Launch in the kernel's context, and put back the one before; require success."""
    before, status = code.value("alloca ptr"), code.value("alloca i32")
    code.line(f"store ptr null, ptr {before}")
    code.line(f"store i32 0, ptr {status}")
    thread = code.value(f"call ptr {python_function(code, record, 'PyEval_SaveThread')}()")
    code.value(f"call i32 {_called(code, record, 'cuCtxGetCurrent')}(ptr {before})")
    context = code.word(record, CONTEXT, "ptr")
    current = code.value(f"load ptr, ptr {before}")
    foreign = code.value(f"icmp ne ptr {current}, {context}")
    with code.when(foreign):
        pushed = code.value(f"call i32 {_called(code, record, 'cuCtxPushCurrent')}(ptr {context})")
        code.line(f"store i32 {pushed}, ptr {status}")
    ready = code.value(f"icmp eq i32 {code.value(f'load i32, ptr {status}')}, 0")
    with code.when(ready):
        launch, function = _called(code, record, "cuLaunchKernelEx"), code.word(record, FUNCTION, "ptr")
        launched = code.value(f"call i32 {launch}(ptr {config}, ptr {function}, ptr {parameters}, ptr null)")
        code.line(f"store i32 {launched}, ptr {status}")
    with code.when(code.value(f"and i1 {ready}, {foreign}")):
        code.value(f"call i32 {_called(code, record, 'cuCtxPopCurrent')}(ptr {before})")
    code.line(f"call void {python_function(code, record, 'PyEval_RestoreThread')}(ptr {thread})")
    # The slow way tells what is wrong.
    code.require_equal(code.value(f"load i32, ptr {status}"), 0, "i32")
