"""Small kernels in LLVM text, compiled once for all tests of the runtime.

Tests with PyTorch's tensors are collected where PyTorch is installed.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from gizml_tile.runtime.compiler import compile_text, load_object
from gizml_tile.runtime.host import host

collect_ignore = [] if find_spec("torch") else ["test_cuda_fast_call.py", "test_cuda_streams.py"]

# count: args = [address, n, chunk, repeats]; adds 1 to each of n words, `repeats` times over.
# arena: args = [address, n, bytes]; fills the arena to its end and notes its address for each piece.
# scratch: args = [address, bytes]; writes the scratch memory's first and last word, notes its address.
TEXT = """
define void @add(ptr %args, ptr %arena, i64 %low, i64 %high) {
entry:
  %base = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [%low, %entry], [%next, %loop]
  %p = getelementptr i64, ptr %base, i64 %i
  %x = load i64, ptr %p
  %y = add i64 %x, 1
  store i64 %y, ptr %p
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %high
  br i1 %more, label %loop, label %out
out:
  ret void
}

define i64 @count(ptr %args, ptr %pool) {
entry:
  %run = load ptr, ptr %pool
  %n.p = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %n.p
  %chunk.p = getelementptr i64, ptr %args, i64 2
  %chunk = load i64, ptr %chunk.p
  %repeats.p = getelementptr i64, ptr %args, i64 3
  %repeats = load i64, ptr %repeats.p
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  call void %run(ptr %pool, ptr @add, ptr %args, i64 %n, i64 %chunk)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %repeats
  br i1 %more, label %loop, label %out
out:
  ret i64 0
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @fill(ptr %args, ptr %arena, i64 %low, i64 %high) {
  %base = load ptr, ptr %args
  %bytes.p = getelementptr i64, ptr %args, i64 2
  %bytes = load i64, ptr %bytes.p
  call void @llvm.memset.p0.i64(ptr %arena, i8 7, i64 %bytes, i1 false)
  %p = getelementptr i64, ptr %base, i64 %low
  %address = ptrtoint ptr %arena to i64
  store i64 %address, ptr %p
  ret void
}

define i64 @arena(ptr %args, ptr %pool) {
  %run = load ptr, ptr %pool
  %n.p = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %n.p
  call void %run(ptr %pool, ptr @fill, ptr %args, i64 %n, i64 1)
  ret i64 0
}

define i64 @scratch(ptr %args, ptr %pool) {
  %base = load ptr, ptr %args
  %bytes.p = getelementptr i64, ptr %args, i64 1
  %bytes = load i64, ptr %bytes.p
  %reserve.p = getelementptr ptr, ptr %pool, i64 1
  %reserve = load ptr, ptr %reserve.p
  %memory = call ptr %reserve(ptr %pool, i64 %bytes)
  %address = ptrtoint ptr %memory to i64
  store i64 %address, ptr %base
  %none = icmp eq ptr %memory, null
  br i1 %none, label %fail, label %write
write:
  store i64 1, ptr %memory
  %last = sub i64 %bytes, 8
  %end = getelementptr i8, ptr %memory, i64 %last
  store i64 2, ptr %end
  ret i64 0
fail:
  ret i64 1
}

define i64 @vector_add(ptr %args, ptr %pool) {
entry:
  %a = load ptr, ptr %args
  %b.p = getelementptr i64, ptr %args, i64 1
  %b = load ptr, ptr %b.p
  %c.p = getelementptr i64, ptr %args, i64 2
  %c = load ptr, ptr %c.p
  %n.p = getelementptr i64, ptr %args, i64 3
  %n = load i64, ptr %n.p
  %scale.p = getelementptr i64, ptr %args, i64 4
  %scale = load float, ptr %scale.p
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %ap = getelementptr float, ptr %a, i64 %i
  %bp = getelementptr float, ptr %b, i64 %i
  %cp = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %ap
  %y = load float, ptr %bp
  %scaled = fmul float %y, %scale
  %z = fadd float %x, %scaled
  store float %z, ptr %cp
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %out
out:
  ret i64 0
}

define i64 @copy_arguments(ptr %args, ptr %pool) {
entry:
  %to = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %p = getelementptr i64, ptr %args, i64 %i
  %x = load i64, ptr %p
  %q = getelementptr i64, ptr %to, i64 %i
  store i64 %x, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %out
out:
  ret i64 0
}
"""
NAMES = ("count", "arena", "scratch", "vector_add", "copy_arguments")


@pytest.fixture(scope="session")
def kernels_object():
    return compile_text(TEXT, host())


@pytest.fixture(scope="session")
def kernels(kernels_object):
    return load_object(kernels_object, NAMES)
