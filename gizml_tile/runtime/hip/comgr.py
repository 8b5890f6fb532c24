"""From LLVM IR to machine code without a device: AMD's ``libamd_comgr``, by its C interface.

Its Python bindings have the numbers of one version's actions, which the other takes for something else; so
the library is asked for its version first, and called directly.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint64
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import TileError, here

COMGR_VARIABLE = "GIZML_TILE_COMGR"
_NAMES = ("libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so")
_TRIPLE = "amdgcn-amd-amdhsa--"
# amd_comgr.h: kinds of data, and actions, which are numbered anew from version 3 on.
_BITCODE, _LOG, _RELOCATABLE, _EXECUTABLE = 6, 5, 7, 8
_ACTIONS = {2: (6, 9), 3: (4, 7)}
# Without it comgr does not optimise.
_OPTIONS = (b"-O3",)


class _Handle(ctypes.Structure):
    """What the library calls a piece of data, a set of them, or an action's options."""

    _fields_ = (("handle", c_uint64),)


@dataclass(frozen=True, slots=True)
class Comgr:
    """The library: where it is, its version, and the numbers of its actions."""

    path: str
    library: ctypes.CDLL
    version: tuple[int, int]
    generate: int
    link: int

    @property
    def name(self) -> str:
        """The library as errors and keys name it."""
        return f"libamd_comgr {self.version[0]}.{self.version[1]}"


def compile_text(text: str, arch: str) -> bytes:
    """The code object of a kernel's LLVM IR, ready to be loaded.

    Raises TileError where the library is not there, does not know the architecture, or refuses the text.
    """
    comgr = found()
    # The endings of the names tell the library what it is given.
    relocatable = _act(comgr, comgr.generate, (_BITCODE, b"kernel.bc", text.encode()), _RELOCATABLE, arch)
    return _act(comgr, comgr.link, (_RELOCATABLE, b"kernel.o", relocatable), _EXECUTABLE, arch)


def found() -> Comgr:
    """The library as GIZML_TILE_COMGR says, else of ROCm. Raises TileError where there is none."""
    return _found(os.environ.get(COMGR_VARIABLE, ""), tuple(_folders()))


@lru_cache
def _found(setting: str, folders: tuple[str, ...]) -> Comgr:
    paths = [setting] if setting else [str(Path(folder, name)) for folder in folders for name in _NAMES]
    paths += [] if setting else list(_NAMES)
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        version = _version(library)
        actions = _ACTIONS.get(version[0])
        if actions is None:
            raise TileError(
                f"{path} is libamd_comgr {version[0]}.{version[1]}, and versions {_versions()} are known; "
                f"name another one by {COMGR_VARIABLE}",
                here(),
            )
        return Comgr(path, library, version, *actions)
    where = setting or "ROCm's folders or the system's"
    raise TileError(
        f"code for AMD GPUs is made by ROCm's libamd_comgr, which is not in {where}; install ROCm, or name "
        f"the library's path by {COMGR_VARIABLE}",
        here(),
    )


def _versions() -> str:
    return " and ".join(map(str, _ACTIONS))


def _folders() -> Iterator[str]:
    """Where ROCm is: as its variables say, with PyTorch, in its own place."""
    for variable in ("ROCM_PATH", "ROCM_HOME"):
        if os.environ.get(variable):
            yield str(Path(os.environ[variable], "lib"))
    torch = sys.modules.get("torch")
    if torch is not None and torch.version.hip and torch.__file__:
        yield str(Path(torch.__file__).parent / "lib")
    yield "/opt/rocm/lib"


def _version(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = c_size_t(), c_size_t()
    library.amd_comgr_get_version(byref(major), byref(minor))
    return major.value, minor.value


# One action: data in, data out


def _act(comgr: Comgr, action: int, given: tuple[int, bytes, bytes], wanted: int, arch: str) -> bytes:
    library, (kind, name, content) = comgr.library, given
    with (
        _made(comgr, "create_data", "release_data", c_int(kind)) as data,
        _made(comgr, "create_data_set", "destroy_data_set") as inputs,
        _made(comgr, "create_data_set", "destroy_data_set") as outputs,
        _made(comgr, "create_action_info", "destroy_action_info") as options,
    ):
        _call(comgr, "set_data", data, c_size_t(len(content)), c_char_p(content))
        _call(comgr, "set_data_name", data, c_char_p(name))
        _call(comgr, "data_set_add", inputs, data)
        if library.amd_comgr_action_info_set_isa_name(options, c_char_p(f"{_TRIPLE}{arch}".encode())):
            raise TileError(
                f"{comgr.name} ({comgr.path}) makes no code for {arch}; use a newer ROCm for this GPU", here()
            )
        _call(comgr, "action_info_set_option_list", options, _list(_OPTIONS), c_size_t(len(_OPTIONS)))
        _call(comgr, "action_info_set_logging", options, c_bool(True))
        if library.amd_comgr_do_action(c_int(action), options, inputs, outputs):
            log = _content(comgr, outputs, _LOG).decode(errors="replace").strip()
            raise TileError(f"{comgr.name} cannot make code for {arch}: {log or 'it says no more'}", here())
        return _content(comgr, outputs, wanted)


@contextmanager
def _made(comgr: Comgr, create: str, destroy: str, *arguments: Any) -> Iterator[_Handle]:
    handle = _Handle()
    _call(comgr, create, *arguments, byref(handle))
    try:
        yield handle
    finally:
        _call(comgr, destroy, handle)


def _call(comgr: Comgr, name: str, *arguments: Any) -> None:
    function: Callable[..., int] = getattr(comgr.library, f"amd_comgr_{name}")
    status = function(*arguments)
    if status:
        raise TileError(f"{comgr.name}: amd_comgr_{name} answered {status}", here())


def _list(options: tuple[bytes, ...]) -> Any:
    return (c_char_p * len(options))(*options)


def _content(comgr: Comgr, outputs: _Handle, kind: int) -> bytes:
    """The first piece of data of a kind; empty where there is none."""
    count = c_size_t()
    _call(comgr, "action_data_count", outputs, c_int(kind), byref(count))
    if not count.value:
        return b""
    data, size = _Handle(), c_size_t()
    _call(comgr, "action_data_get_data", outputs, c_int(kind), c_size_t(0), byref(data))
    try:
        _call(comgr, "get_data", data, byref(size), POINTER(ctypes.c_char)())
        content = ctypes.create_string_buffer(size.value)
        _call(comgr, "get_data", data, byref(size), content)
        return content.raw
    finally:
        _call(comgr, "release_data", data)
