"""LLVM text to object bytes, and object bytes to code that can be called."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import TileError, here
from . import elf
from .host import CPU_VARIABLE, Host

_lock = threading.Lock()
_LIBRARY_NUMBERS = itertools.count()
_LATE_LOOP_PASSES = ("-disable-lsr", "-disable-cgp")
# A switch that an LLVM does not know ends the process.
_KNOWN_LLVM = range(15, 23)


@dataclass(frozen=True, slots=True)
class Code:
    """Loaded code: the addresses of its functions, and what keeps them in memory."""

    symbols: dict[str, int]
    owner: Any

    def address(self, name: str) -> int:
        """The address of a function of the object."""
        return self.symbols[name]


def compile_text(text: str, host: Host, *, simplify: bool = False) -> bytes:
    """The object code of a module of LLVM IR for the host's CPU.

    The text is taken as written: LLVM's middle end is not run, except instruction combining and
    branch simplification where ``simplify`` asks for them.
    """
    llvm = _llvm()
    with _lock:
        machine = _machine(host.triple, host.cpu_base, host.feature_text)
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise AssertionError(
                f"the module for this kernel is not valid LLVM IR: {error}"
            ) from error
        module.triple = host.triple
        module.data_layout = str(machine.target_data)
        if simplify:
            passes = llvm.create_pass_builder(
                machine, llvm.create_pipeline_tuning_options(speed_level=2)
            )
            manager = llvm.create_new_module_pass_manager()
            manager.add_instruction_combine_pass()
            manager.add_simplify_cfg_pass()
            manager.run(module, passes)
        with _without_late_loop_passes(llvm, host):
            return bytes(machine.emit_object(module))


@contextlib.contextmanager
def _without_late_loop_passes(llvm: Any, host: Host) -> Iterator[None]:
    """Leave out the two costliest passes before instruction selection, a third of all compiling.

    They rearrange addresses in loops, which emitted code has in the form that x86 takes; the code is as
    fast without. LLVM knows them as switches of the whole process, hence the switching back: a compiler
    that shares the library and runs at this very moment makes code that is right, if differently.
    """
    if not host.triple.startswith("x86_64") or llvm.llvm_version_info[0] not in _KNOWN_LLVM:
        yield
        return
    for switch in _LATE_LOOP_PASSES:
        llvm.set_option("", switch)
    try:
        yield
    finally:
        for switch in _LATE_LOOP_PASSES:
            llvm.set_option("", f"{switch}=false")


def assembly(text: str, host: Host) -> str:
    """The assembler text of a module of LLVM IR for the host's CPU, to look at."""
    llvm = _llvm()
    with _lock:
        machine = _machine(host.triple, host.cpu_base, host.feature_text)
        module = llvm.parse_assembly(text)
        module.triple = host.triple
        module.data_layout = str(machine.target_data)
        return str(machine.emit_assembly(module))


def load_object(data: bytes, names: tuple[str, ...]) -> Code:
    """Object bytes as callable code; ``names`` are the functions whose addresses are wanted."""
    if sys.platform.startswith("linux"):
        loaded = elf.load(data)
        if loaded is not None:
            return Code({name: loaded.symbols[name] for name in names}, loaded)
    return load_with_llvm(data, names)


def load_with_llvm(data: bytes, names: tuple[str, ...]) -> Code:
    """`load_object` by LLVM's own loader, which knows every platform and costs importing llvmlite."""
    llvm = _llvm()
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name in names:
            builder.export_symbol(name)
        library = builder.link(_linker(), f"gizml_tile_{next(_LIBRARY_NUMBERS)}")
        return Code({name: library[name] for name in names}, library)


def _after_fork() -> None:
    # Another thread of the parent may have held the lock, and does not exist in the child.
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@lru_cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    with _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    return llvm


@lru_cache
def _machine(triple: str, cpu: str, features: str) -> Any:
    llvm = _llvm()
    _check_features(features)
    # Position-independent code in the small model needs no address fixed up but those to the C library.
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", jit=True
    )


@lru_cache
def _linker() -> Any:
    llvm = _llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    return llvm.create_lljit_compiler(machine)


def _check_features(features: str) -> None:
    """Refuse to compile for features that LLVM, the last witness, does not see on this CPU."""
    try:
        found = dict(_llvm().get_host_cpu_features())
    except RuntimeError:
        return
    missing = [
        name for name in features.replace("+", "").split(",") if name and not found.get(name, False)
    ]
    if found and missing:
        raise TileError(
            f"LLVM finds no {', '.join(missing)} on this CPU although the system reports them; set "
            f"{CPU_VARIABLE} to x86-64-v2 or x86-64-v3",
            here(),
        )
