"""The native half of a fast call, as LLVM text: a Python callable that checks and launches by itself.

It compares a call's arguments with the record of an earlier call, and launches the same code where only
arrays' addresses and free numbers differ. It gives the tuple of results, or None where anything else is
different. The record is 64-bit words; a list in it is two words: how many items, and where they start.

==== ==============================================================================================
   0 arguments of a call
   1 words that the entry reads, with their values (list of 1)
   3 arrays (list of 6): argument, dtype's address, dimensions, flags that are needed, where the sizes
     and then the strides in bytes stand, word that takes the address
   5 numbers (list of 6): argument, type's address, 1 for a float, word that takes it or -1, whether it
     must be the same, and as which bits
   7 arguments that are the same object (list of 2): argument, address
   9 dictionary entries that are the same object (list of 3): dictionary, key, address
  11 closure cells that hold the same object (list of 2): cell, address
  13 pairs of arrays that do not meet (list of 6): word with an address, first byte and end from there,
     and the same for the other
  15 results (list of 1): argument
  17 entry, 18: arena bytes, 19: where the pool's address is, 20: the pool's ``launch``
  21 None, 22: the array type
  23 Python's functions, in the order of `PYTHON_FUNCTIONS`
==== ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from .objects import (
    BYTES_AT,
    CELL_AT,
    DATA_AT,
    DIMENSIONS_AT,
    DTYPE_AT,
    FLAGS_AT,
    FLOAT_AT,
    SHAPE_AT,
    STRIDES_AT,
    TUPLE_AT,
    TYPE_AT,
)

COUNT, WORDS, ARRAYS, NUMBERS, SAME, ENTRIES, CELLS, APART, RESULTS = 0, 1, 3, 5, 7, 9, 11, 13, 15
ENTRY, ARENA, POOL, LAUNCH, NONE, ARRAY_TYPE, FUNCTIONS = 17, 18, 19, 20, 21, 22, 23

PYTHON_FUNCTIONS = (
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "PyTuple_New",
    "PyDict_GetItemWithError",
    "PyLong_AsLongLong",
    "PyErr_Clear",
    "PyErr_Occurred",
)
HEADER_WORDS = FUNCTIONS + len(PYTHON_FUNCTIONS)


class Writer:
    """A function being written; every value gets the next number as its name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def value(self, expression: str) -> str:
        name = "%" + self.name("v")
        self.line(f"{name} = {expression}")
        return name

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def at(self, base: str, offset: int | str, unit: str = "i8") -> str:
        """An address so many units after another."""
        return self.value(f"getelementptr {unit}, ptr {base}, i64 {offset}")

    def load(self, base: str, offset: int | str, kind: str = "i64", unit: str = "i8") -> str:
        return self.value(f"load {kind}, ptr {self.at(base, offset, unit)}")

    def word(self, base: str, number: int | str, kind: str = "i64") -> str:
        """A word of the record, of a list's item, or of the words that the entry reads."""
        return self.load(base, number, kind, "i64")

    def require(self, condition: str) -> None:
        """Give None unless the condition holds."""
        label = self.name("next")
        self.line(f"br i1 {condition}, label %{label}, label %different")
        self.start(label)

    def require_equal(self, one: str, other: str | int, kind: str = "i64") -> None:
        self.require(self.value(f"icmp eq {kind} {one}, {other}"))

    @contextmanager
    def counted(self, count: str) -> Iterator[str]:
        """A loop over numbers from 0; gives the number."""
        before, head, body, end, out = self.block, *map(self.name, ("head", "body", "end", "out"))
        number, following = "%" + self.name("i"), "%" + self.name("i")
        self.line(f"br label %{head}")
        self.start(head)
        self.line(f"{number} = phi i64 [0, %{before}], [{following}, %{end}]")
        more = self.value(f"icmp ult i64 {number}, {count}")
        self.line(f"br i1 {more}, label %{body}, label %{out}")
        self.start(body)
        yield number
        self.line(f"br label %{end}")
        self.start(end)
        self.line(f"{following} = add i64 {number}, 1")
        self.line(f"br label %{head}")
        self.start(out)

    @contextmanager
    def each(self, record: str, list_at: int, size: int) -> Iterator[tuple[str, str]]:
        """A loop over a list of the record; gives the item's number and its address."""
        first = self.at(record, self.word(record, list_at + 1), "i64")
        with self.counted(self.word(record, list_at)) as number:
            yield number, self.at(first, self.value(f"mul i64 {number}, {size}"), "i64")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        inside, after = self.name("when"), self.name("after")
        self.line(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        yield
        self.line(f"br label %{after}")
        self.start(after)


@lru_cache
def fast_call_text() -> str:
    """The callable, as the METH_FASTCALL function ``fast_call(self, args, count)``."""
    code = Writer()
    record = code.at(code.load("%self", TUPLE_AT, "ptr"), BYTES_AT)
    code.require_equal("%count", code.word(record, COUNT))
    # One word more than the entry reads, for addresses that it does not want.
    length = code.value(f"add i64 {code.word(record, WORDS)}, 1")
    words = code.value(f"alloca i64, i64 {length}, align 16")
    with code.each(record, WORDS, 1) as (number, item):
        code.line(f"store i64 {code.word(item, 0)}, ptr {code.at(words, number, 'i64')}")
    _take_arrays(code, record, words)
    take_numbers(code, record, words)
    compare_objects(code, record)
    with code.each(record, APART, 6) as (_, item):
        require_apart(code, item, words)
    pool = code.value(f"load ptr, ptr {code.word(record, POOL, 'ptr')}")
    code.require(code.value(f"icmp ne ptr {pool}, null"))
    launch, entry = code.word(record, LAUNCH, "ptr"), code.word(record, ENTRY, "ptr")
    thread = code.value(f"call ptr {python_function(code, record, 'PyEval_SaveThread')}()")
    arena = code.word(record, ARENA)
    status = code.value(f"call i64 {launch}(ptr {entry}, ptr {words}, ptr {pool}, i64 {arena})")
    code.line(f"call void {python_function(code, record, 'PyEval_RestoreThread')}(ptr {thread})")
    # Busy, too small an arena, or no memory: the slow way deals with it.
    code.require_equal(status, 0)
    give_results(code, record)
    header = "define ptr @fast_call(ptr %self, ptr %args, i64 %count) {\nentry:\n"
    return header + "\n".join(code.lines) + "\n}\n"


def give_results(code: Writer, record: str) -> None:
    """Give the tuple of results, and None where anything was different."""
    results = code.value(
        f"call ptr {python_function(code, record, 'PyTuple_New')}(i64 {code.word(record, RESULTS)})"
    )
    made = code.name("made")
    code.line(f"br i1 {code.value(f'icmp eq ptr {results}, null')}, label %failed, label %{made}")
    code.start(made)
    items = code.at(results, TUPLE_AT)
    with code.each(record, RESULTS, 1) as (number, item):
        result = argument(code, item)
        code.line(f"call void {python_function(code, record, 'Py_IncRef')}(ptr {result})")
        code.line(f"store ptr {result}, ptr {code.at(items, number, 'ptr')}")
    code.line(f"ret ptr {results}")
    code.start("failed")
    code.line("ret ptr null")
    code.start("different")
    none = code.word(record, NONE, "ptr")
    code.line(f"call void {python_function(code, record, 'Py_IncRef')}(ptr {none})")
    code.line(f"ret ptr {none}")


def python_function(code: Writer, record: str, name: str) -> str:
    """The address of one of Python's functions, read where it is called to keep registers free."""
    return code.word(record, FUNCTIONS + PYTHON_FUNCTIONS.index(name), "ptr")


def argument(code: Writer, item: str) -> str:
    """The argument whose number an item starts with."""
    return code.load("%args", code.word(item, 0), "ptr", "ptr")


def _take_arrays(code: Writer, record: str, words: str) -> None:
    array_type = code.word(record, ARRAY_TYPE)
    with code.each(record, ARRAYS, 6) as (_, item):
        array = argument(code, item)
        code.require_equal(code.load(array, TYPE_AT), array_type)
        code.require_equal(code.load(array, DTYPE_AT), code.word(item, 1))
        dimensions = code.value(f"zext i32 {code.load(array, DIMENSIONS_AT, 'i32')} to i64")
        code.require_equal(dimensions, code.word(item, 2))
        flags = code.value(f"zext i32 {code.load(array, FLAGS_AT, 'i32')} to i64")
        needed = code.word(item, 3)
        code.require_equal(code.value(f"and i64 {flags}, {needed}"), needed)
        sizes = code.load(array, SHAPE_AT, "ptr")
        strides = code.load(array, STRIDES_AT, "ptr")
        known_sizes = code.at(record, code.word(item, 4), "i64")
        known_strides = code.at(known_sizes, dimensions, "i64")
        with code.counted(dimensions) as axis:
            code.require_equal(code.word(sizes, axis), code.word(known_sizes, axis))
            code.require_equal(code.word(strides, axis), code.word(known_strides, axis))
        code.line(
            f"store i64 {code.load(array, DATA_AT)}, ptr {code.at(words, code.word(item, 5), 'i64')}"
        )


def take_numbers(code: Writer, record: str, words: str) -> None:
    """Put the call's numbers into their words."""
    bits_p = code.value("alloca i64")
    word_p = code.value("alloca i64")
    with code.each(record, NUMBERS, 6) as (_, item):
        number = argument(code, item)
        code.require_equal(code.load(number, TYPE_AT), code.word(item, 1))
        is_float = code.value(f"icmp ne i64 {code.word(item, 2)}, 0")
        is_integer = code.value(f"xor i1 {is_float}, true")
        with code.when(is_float):
            value = code.load(number, FLOAT_AT, "double")
            code.line(f"store i64 {code.value(f'bitcast double {value} to i64')}, ptr {bits_p}")
            single = code.value(
                f"bitcast float {code.value(f'fptrunc double {value} to float')} to i32"
            )
            code.line(f"store i64 {code.value(f'zext i32 {single} to i64')}, ptr {word_p}")
        with code.when(is_integer):
            value = code.value(
                f"call i64 {python_function(code, record, 'PyLong_AsLongLong')}(ptr {number})"
            )
            # -1 may be the number or an overflow.
            with code.when(code.value(f"icmp eq i64 {value}, -1")):
                raised = code.value(f"call ptr {python_function(code, record, 'PyErr_Occurred')}()")
                with code.when(code.value(f"icmp ne ptr {raised}, null")):
                    code.line(f"call void {python_function(code, record, 'PyErr_Clear')}()")
                    code.require("false")
            code.line(f"store i64 {value}, ptr {bits_p}")
            code.line(f"store i64 {value}, ptr {word_p}")
        free = code.value(f"icmp eq i64 {code.word(item, 4)}, 0")
        bits = code.value(f"load i64, ptr {bits_p}")
        same = code.value(f"icmp eq i64 {bits}, {code.word(item, 5)}")
        code.require(code.value(f"or i1 {free}, {same}"))
        place = code.word(item, 3)
        with code.when(code.value(f"icmp sge i64 {place}, 0")):
            word = code.value(f"load i64, ptr {word_p}")
            code.line(f"store i64 {word}, ptr {code.at(words, place, 'i64')}")


def compare_objects(code: Writer, record: str) -> None:
    """Require the objects that the launch rests on."""
    with code.each(record, SAME, 2) as (_, item):
        code.require_equal(argument(code, item), code.word(item, 1, "ptr"), "ptr")
    with code.each(record, ENTRIES, 3) as (_, item):
        dictionary, key = code.word(item, 0, "ptr"), code.word(item, 1, "ptr")
        get = python_function(code, record, "PyDict_GetItemWithError")
        found = code.value(f"call ptr {get}(ptr {dictionary}, ptr {key})")
        code.require_equal(found, code.word(item, 2, "ptr"), "ptr")
    with code.each(record, CELLS, 2) as (_, item):
        held = code.load(code.word(item, 0, "ptr"), CELL_AT, "ptr")
        code.require_equal(held, code.word(item, 1, "ptr"), "ptr")


def require_apart(code: Writer, item: str, words: str) -> None:
    """Require that a pair of arrays does not meet."""
    ends = []
    for first in (0, 3):
        address = code.word(words, code.word(item, first))
        ends.append(
            [code.value(f"add i64 {address}, {code.word(item, first + side)}") for side in (1, 2)]
        )
    (low, high), (other_low, other_high) = ends
    before = code.value(f"icmp ule i64 {high}, {other_low}")
    after = code.value(f"icmp ule i64 {other_high}, {low}")
    code.require(code.value(f"or i1 {before}, {after}"))
