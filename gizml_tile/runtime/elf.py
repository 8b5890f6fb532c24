"""A loader for the small x86-64 ELF objects that kernels compile to.

Loading an object from the disk cache through LLVM means importing llvmlite first, fifty times the
cost of everything else in such a launch. Objects of ours have one shape: code and constants, and
references between them or to functions of the C library. This lays them out in memory and joins
the references; `load` answers None for whatever else it meets, and LLVM's loader takes that.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from functools import lru_cache

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITABLE, _ALLOCATED = 1, 2
_UNDEFINED, _SPECIAL = 0, 0xFF00

_ABSOLUTE_64, _RELATIVE_32, _CALL_32 = 1, 2, 4
_TABLE_32 = (9, 41, 42)
_RELATIVE_64 = 24

# jmp *2(%rip), then the address: how code reaches a function further than 2 GiB away.
_JUMP = b"\xff\x25\x02\x00\x00\x00\x66\x90"
_JUMP_BYTES = 16

_PROT_READ, _PROT_WRITE, _PROT_EXECUTE = 1, 2, 4
_MAP_PRIVATE, _MAP_ANONYMOUS = 2, 32
_MAP_FAILED = (1 << 64) - 1
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class LoadedElf:
    """Code in memory: ``symbols`` holds the addresses of its functions; it is unmapped when dropped."""

    def __init__(self, base: int, size: int, symbols: dict[str, int]) -> None:
        self.symbols = symbols
        self._base = base
        self._size = size
        self._unmap = _libc().munmap

    def __del__(self) -> None:
        self._unmap(self._base, self._size)


def load(data: bytes) -> LoadedElf | None:
    """The object's code in memory, ready to be called; None where it needs LLVM's loader."""
    sections = _sections(data)
    if sections is None:
        return None
    placed, size = _place(sections)
    table = next((section for section in sections if section.kind == _SYMBOLS), None)
    if table is None:
        return None
    relocations = [
        (placed[section.info], *_RELOCATION.unpack_from(data, section.offset + at))
        for section in sections
        if section.kind == _RELOCATIONS and section.info in placed
        for at in range(0, section.size, _RELOCATION.size)
    ]
    joins_at = size
    size += _JUMP_BYTES * len(relocations)
    libc = _libc()
    size = -(-size // _PAGE) * _PAGE
    base = libc.mmap(None, size, _PROT_READ | _PROT_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0)
    if base in (None, _MAP_FAILED):
        return None
    memory = (ctypes.c_char * size).from_address(base)
    for index, at in placed.items():
        section = sections[index]
        if section.kind != _NO_BITS:
            ctypes.memmove(
                base + at, data[section.offset : section.offset + section.size], section.size
            )
    addresses, names = _resolve(data, sections, table, placed, base)
    loaded = LoadedElf(base, size, names)
    if not _join(memory, base, joins_at, relocations, addresses):
        return None
    if libc.mprotect(base, size, _PROT_READ | _PROT_EXECUTE):
        return None
    return loaded


def _sections(data: bytes) -> list[_Section] | None:
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < _HEADER.size:
        return None
    header = _HEADER.unpack_from(data)
    if header[1:3] != (_RELOCATABLE, _X86_64):
        return None
    start, count, names_index = header[6], header[12], header[13]
    raw = [_SECTION.unpack_from(data, start + index * _SECTION.size) for index in range(count)]
    names_offset = raw[names_index][4]
    sections = []
    for name, kind, flags, _, offset, size, link, info, alignment, _ in raw:
        text = _text(data, names_offset + name)
        if text.startswith(".eh_frame"):
            flags = 0
        if text.startswith(".data.rel.ro"):
            # Constant once the addresses in it are written, which is before the mapping is sealed.
            flags &= ~_WRITABLE
        sections.append(_Section(text, kind, flags, offset, size, link, info, alignment))
    # Constants and code share one read-only mapping; variables would need another.
    if any(
        section.flags & _ALLOCATED and section.flags & _WRITABLE and section.size
        for section in sections
    ):
        return None
    return sections


def _place(sections: list[_Section]) -> tuple[dict[int, int], int]:
    """Offsets of the sections that are needed at run time, by their index, and the end of the last."""
    placed: dict[int, int] = {}
    end = 0
    for index, section in enumerate(sections):
        if section.flags & _ALLOCATED:
            alignment = max(section.alignment, 1)
            end = -(-end // alignment) * alignment
            placed[index] = end
            end += section.size
    return placed, -(-end // _JUMP_BYTES) * _JUMP_BYTES


def _resolve(
    data: bytes, sections: list[_Section], table: _Section, placed: dict[int, int], base: int
) -> tuple[list[int | None], dict[str, int]]:
    """The address of every symbol by number, None where unknown, and of the defined ones by name."""
    names_offset = sections[table.link].offset
    addresses: list[int | None] = []
    names: dict[str, int] = {}
    for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, _, _, section, value, _ = _SYMBOL.unpack_from(data, at)
        text = _text(data, names_offset + name)
        if section == _UNDEFINED:
            addresses.append(_process_symbol(text) if text else None)
        elif section in placed:
            addresses.append(base + placed[section] + value)
            names[text] = base + placed[section] + value
        else:
            addresses.append(value if section >= _SPECIAL else None)
    return addresses, names


def _join(
    memory: ctypes.Array[ctypes.c_char],
    base: int,
    joins_at: int,
    relocations: list[tuple[int, int, int, int]],
    addresses: list[int | None],
) -> bool:
    """Write every reference's distance or address; False where one is of a kind not known here."""
    joins: dict[int, int] = {}
    for section_at, offset, info, addend in relocations:
        kind, target = info & 0xFFFFFFFF, addresses[info >> 32]
        if target is None:
            return False
        place = section_at + offset
        if kind == _ABSOLUTE_64:
            struct.pack_into("<Q", memory, place, (target + addend) % (1 << 64))
            continue
        if kind == _RELATIVE_64:
            struct.pack_into("<q", memory, place, target + addend - base - place)
            continue
        if kind not in (_RELATIVE_32, _CALL_32, *_TABLE_32):
            return False
        far = abs(target - base) >= 1 << 30
        if kind in _TABLE_32 or (kind == _CALL_32 and far):
            at = joins.setdefault(target, joins_at + _JUMP_BYTES * len(joins))
            struct.pack_into("<8sQ", memory, at, _JUMP, target)
            target = base + at + (8 if kind in _TABLE_32 else 0)
        elif far:
            return False
        struct.pack_into("<i", memory, place, target + addend - base - place)
    return True


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


@lru_cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


def _process_symbol(name: str) -> int | None:
    try:
        return ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value
    except AttributeError:
        return None
