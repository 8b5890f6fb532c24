"""Which callables are the person's own functions, that a kernel needs rewritten."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

from gizml_tile.errors import is_own_file

_GENERATOR = (
    0x20 | 0x80 | 0x100 | 0x200
)  # CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR


Rewrite = Callable[[FunctionType], Callable[..., object]]


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders if folder)


@lru_cache(maxsize=4096)
def _is_library(filename: str) -> bool:
    if filename.startswith("<frozen ") or is_own_file(filename):
        return True
    return os.path.realpath(filename).startswith(_library_folders())


def is_persons(code: CodeType) -> bool:
    """Whether code lies outside the standard library, installed packages and this library."""
    return not _is_library(code.co_filename)


def is_generator(code: CodeType) -> bool:
    """Whether calling code gives a generator or coroutine."""
    return bool(code.co_flags & _GENERATOR)


def needs_rewriting(thing: object) -> bool:
    """Whether calling a thing may run a function of the person's that holds tiles."""
    if isinstance(thing, FunctionType):
        wrapped = getattr(thing, "__wrapped__", None)
        return is_persons(thing.__code__) or (wrapped is not None and needs_rewriting(wrapped))
    if isinstance(thing, MethodType):
        return needs_rewriting(thing.__func__)
    if isinstance(thing, functools.partial):
        return needs_rewriting(thing.func)
    if isinstance(thing, type):
        return False
    wrapped = getattr(thing, "__wrapped__", None)
    if isinstance(wrapped, FunctionType) and not _is_own(thing):
        return is_persons(wrapped.__code__)
    call = getattr(type(thing), "__call__", None)  # noqa: B004 - the method itself is looked at
    return isinstance(call, FunctionType) and is_persons(call.__code__)


def _dispatched(generic: Any, rewrite: Rewrite) -> Callable[..., object]:
    """A ``functools.singledispatch`` function whose implementations are rewritten."""

    def call(first: object, *rest: object, **named: object) -> object:
        return resolved(generic.dispatch(type(first)), rewrite)(first, *rest, **named)

    return call


def _is_own(thing: object) -> bool:
    return type(thing).__module__.startswith("gizml_tile.")


def resolved(thing: Callable[..., object], rewrite: Rewrite) -> Callable[..., object]:
    """A callable whose functions of the person's are the rewritten ones; the thing itself is unchanged."""
    if not needs_rewriting(thing):
        return thing
    if isinstance(thing, FunctionType):
        if is_persons(thing.__code__):
            return rewrite(thing)
        if hasattr(thing, "registry") and hasattr(thing, "dispatch"):
            return _dispatched(thing, rewrite)
        wrapped = thing.__wrapped__  # type: ignore[attr-defined]
        code = getattr(wrapped, "__code__", None)
        if code is not None and is_generator(code):
            return thing  # a context manager or the like: its wrapper gives the function another meaning
        return resolved(wrapped, rewrite)
    if isinstance(thing, MethodType):
        return MethodType(resolved(thing.__func__, rewrite), thing.__self__)
    if isinstance(thing, functools.partial):
        return functools.partial(resolved(thing.func, rewrite), *thing.args, **thing.keywords)
    wrapped = getattr(thing, "__wrapped__", None)
    if isinstance(wrapped, FunctionType):
        return resolved(
            wrapped, rewrite
        )  # lru_cache: a cached tile would belong to another program
    return MethodType(resolved(type(thing).__call__, rewrite), thing)
