"""Interleaving: a tensor's vectors are loaded, computed with and stored piece after piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gizml_tile.lowering.kernel_ir.instructions import (
    APART,
    ELEMENTWISE,
    GLOBAL,
    Access,
    Block,
    Instruction,
    Kernel,
)
from gizml_tile.lowering.passes.rewriting import Replaced, is_pure, with_instructions, with_operands

# A piece of a value is what one access of the narrowest type moves at once.
_PIECE_BYTES = 16
# So many pieces' loads are on their way while one is computed with and stored.
_AHEAD = 1


def interleave(kernel: Kernel) -> Kernel:
    """The kernel with long loads and the stores that they lead to cut into pieces, which take turns.

    An assembler keeps loads and stores in order, as they may be of the same memory: so all that is loaded
    before the first store takes registers at once, and the memory is read long before it is written.
    Only what lies between two places where threads meet, or structure begins or ends, takes turns.
    """
    return replace(kernel, body=_Interleaving(kernel).block(kernel.body))


class _Interleaving:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._replaced = Replaced()
        # Who uses a value; None stands for a block that gives it.
        self._users: dict[Instruction, list[Instruction | None]] = {}
        self._note_users(kernel.body)

    def _note_users(self, block: Block) -> None:
        for value in block.results:
            self._users.setdefault(value, []).append(None)
        for instruction in block.instructions:
            for value in instruction.args:
                self._users.setdefault(value, []).append(instruction)
            for inner in instruction.blocks:
                self._note_users(inner)

    def block(self, block: Block) -> Block:
        kept: list[Instruction] = []
        run: list[Instruction] = []
        for instruction in block.instructions:
            if _takes_turns(instruction):
                run.append(instruction)
                continue
            kept += self._run(run)
            run = []
            kept.append(self._kept(instruction))
        kept += self._run(run)
        return with_instructions(block, kept, self._replaced.all(block.results))

    def _kept(self, instruction: Instruction) -> Instruction:
        return self._replaced.rebuild(instruction, tuple([self.block(each) for each in instruction.blocks]))

    def _run(self, run: Sequence[Instruction]) -> list[Instruction]:
        piece = self._piece(run)
        if not piece:
            return [self._kept(instruction) for instruction in run]
        members = frozenset(run)
        needed = [
            value
            for value in run
            if any(user is None or user not in members for user in self._users.get(value, ()))
        ]
        return _Run(run, piece, self._replaced).turns(needed)

    def _piece(self, run: Sequence[Instruction]) -> int:
        """The registers of a piece; 0 where the run stays as it is."""
        moves = [each for each in run if each.op in ("load", "store") and _access(each).space == GLOBAL]
        again = [each for each in run if each.op == "again"]
        bytes = [each.dtype.bytes for each in again if each.dtype is not None]
        bytes += [self._kernel.tensors[_access(each).memory].dtype.bytes for each in moves]
        if not bytes or not self._apart(moves):
            return 0
        piece = max(_PIECE_BYTES // min(bytes), 1)
        long = {each.op for each in moves if _moved(each) > piece}
        branches = sum(each.op == "branch" for each in run)
        return piece if again or ("store" in long and ("load" in long or branches > 1)) else 0

    def _apart(self, moves: Iterable[Instruction]) -> bool:
        """Whether no store is of memory that another access of the run goes to."""
        tensors = [_access(each).memory for each in moves]
        stored = [_access(each).memory for each in moves if each.op == "store"]
        if self._kernel.may_alias:
            return len(tensors) == 1
        return all(tensors.count(tensor) == 1 for tensor in stored)


def _takes_turns(instruction: Instruction) -> bool:
    if instruction.op == "store":
        return _access(instruction).space == GLOBAL
    if instruction.op in ("branch", "result"):
        branch = instruction.args[0] if instruction.op == "result" else instruction
        return branch.attr == APART and all(is_pure(each) for block in branch.blocks for each in block.walk())
    return instruction.op == "load" or is_pure(instruction)


def _access(move: Instruction) -> Access:
    assert isinstance(move.attr, Access)
    return move.attr


def _moved(move: Instruction) -> int:
    """The registers that a load or store moves."""
    return _access(move).width * len(_access(move).places)


_Place = tuple[Instruction, int]  # a value, and which of its registers


class _Run:
    """One run: its instructions on pieces of values, each made when something asks for it."""

    def __init__(self, run: Sequence[Instruction], piece: int, replaced: Replaced) -> None:
        self._run = run
        self._members = frozenset(run)
        self._piece = piece
        self._replaced = replaced
        self._pieces: dict[tuple[Instruction, int], Instruction] = {}
        self._together: dict[tuple[_Place, ...], Instruction] = {}
        self._out: list[Instruction] = []

    def turns(self, needed: Iterable[Instruction]) -> list[Instruction]:
        """The run in turns, with those of its values that others need noted as replaced."""
        stores = [each for each in self._run if each.op == "store"]
        counts = [self._count(store) for store in stores]
        turns = [
            (store, number)
            for number in range(max(counts, default=0))
            for store, count in zip(stores, counts, strict=True)
            if number < count
        ]
        loads = [self._loads(*turn) for turn in turns]
        fed = {load for each in loads for load, _ in each}
        for load in self._run:
            if load.op == "load" and load not in fed:
                self._whole(load)  # something else waits for it
        self._load(loads[:_AHEAD])
        for turn, (store, number) in enumerate(turns):
            made = self._make(store, number)
            self._load(loads[turn + 1 : turn + 1 + _AHEAD])
            self._out.append(made)
        for value in needed:
            self._replaced[value] = self._whole(value)
        return self._out

    def _load(self, turns: Iterable[Iterable[_Place]]) -> None:
        for places in turns:
            for load, number in places:
                self._made(load, number)

    # Pieces

    def _size(self, value: Instruction) -> int:
        """The registers of each piece of a value; those that are not cut are one piece."""
        if value.op in ("load", "store"):
            return max(self._piece, _access(value).width)
        return self._piece if value.op in ELEMENTWISE else max(value.count, 1)

    def _count(self, value: Instruction) -> int:
        count = _moved(value) if value.op == "store" else value.count
        return -(-count // self._size(value))

    def _registers(self, value: Instruction, number: int) -> range:
        count, size = _moved(value) if value.op == "store" else value.count, self._size(value)
        return range(number * size, min((number + 1) * size, count))

    def _place(self, value: Instruction, register: int) -> _Place | None:
        """The piece of this run that a register is in: (value, piece); None for what was before."""
        if value not in self._members:
            return None
        if value.op == "pick":
            assert isinstance(value.attr, tuple)
            return self._place(value.args[0], int(value.attr[register]))  # type: ignore[arg-type]
        if value.op == "join":
            return self._place(*_part(value, register))
        return value, register // self._size(value)

    def _loads(self, value: Instruction, number: int) -> list[_Place]:
        """The pieces of loads that a piece of a value is made of, each once."""
        found: dict[_Place, None] = {}
        seen: set[_Place] = set()
        pending = [(value, number)]
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            if each[0].op == "load":
                found[each] = None
            registers = self._registers(*each)
            for arg, chosen in self._operands(each[0], registers):
                places = dict.fromkeys([self._place(arg, register) for register in chosen])
                pending += [place for place in places if place is not None]
        return sorted(found, key=lambda each: (self._run.index(each[0]), each[1]))

    def _operands(self, value: Instruction, registers: range) -> list[tuple[Instruction, Sequence[int]]]:
        """Which registers of its operands a piece of a value takes."""
        if value.op in ELEMENTWISE:
            return [(arg, registers if arg.count > 1 else (0,)) for arg in value.args]
        if value.op == "result":
            return [(value.args[0], (0,))]
        if value.op not in ("load", "store"):
            used = (*value.args, *_captured(value)) if value.blocks else value.args
            return [(arg, range(arg.count)) for arg in used]
        width = _access(value).width
        accesses = range(registers.start // width, registers.stop // width)
        *stored, offsets = value.args[: 2 if value.op == "store" else 1]
        masks = [(mask, accesses if mask.count > 1 else (0,)) for mask in value.args[len(stored) + 1 :]]
        return [*((each, registers) for each in stored), (offsets, range(offsets.count)), *masks]

    # Making

    def _made(self, value: Instruction, number: int) -> Instruction:
        """A piece of a value."""
        found = self._pieces.get((value, number))
        if found is None:
            found = self._pieces[value, number] = self._make(value, number)
            self._out.append(found)
        return found

    def _make(self, value: Instruction, number: int) -> Instruction:
        if value.op == "result":
            self._made(value.args[0], 0)
            return self._replaced.rebuild(value)
        if value.blocks:
            return self._branch(value)
        registers = self._registers(value, number)
        args = tuple([self._taken(*each) for each in self._operands(value, registers)])
        whole = self._count(value) == 1
        if whole and args == value.args:
            return value
        made = with_operands(value, args)
        if whole:
            return made
        if value.op not in ("load", "store"):
            return replace(made, count=len(registers))
        access = _access(value)
        places = access.places[registers.start // access.width : registers.stop // access.width]
        count = len(registers) if value.op == "load" else 0
        return replace(made, attr=replace(access, places=places), count=count)

    def _branch(self, branch: Instruction) -> Instruction:
        for value in (*branch.args, *_captured(branch)):
            whole = self._whole(value)
            if whole is not value:
                self._replaced[value] = whole
        blocks = []
        for block in branch.blocks:
            inside = [self._replaced.rebuild(each) for each in block.instructions]
            blocks.append(with_instructions(block, inside, self._replaced.all(block.results)))
        return self._replaced.rebuild(branch, tuple(blocks))

    def _whole(self, value: Instruction) -> Instruction:
        return self._taken(value, range(value.count))

    def _taken(self, value: Instruction, registers: Sequence[int]) -> Instruction:
        """Some registers of a value, one after the other."""
        assert value.dtype is not None
        places = tuple([self._register(value, register) for register in registers])
        if places not in self._together:
            self._together[places] = self._brought_together(value, places)
        return self._together[places]

    def _register(self, value: Instruction, register: int) -> _Place:
        """Where a register is, which is made if it is not there yet."""
        if value not in self._members:
            return self._replaced.get(value, value), register
        if value.op == "pick":
            assert isinstance(value.attr, tuple)
            return self._register(value.args[0], int(value.attr[register]))  # type: ignore[arg-type]
        if value.op == "join":
            return self._register(*_part(value, register))
        number, place = divmod(register, self._size(value))
        return self._made(value, number), place

    def _brought_together(self, like: Instruction, places: Sequence[_Place]) -> Instruction:
        parts: list[tuple[Instruction, list[int]]] = []
        for source, register in places:
            if not parts or parts[-1][0] is not source:
                parts.append((source, []))
            parts[-1][1].append(register)
        made = [self._picked(like, source, tuple(registers)) for source, registers in parts]
        if len(made) == 1:
            return made[0]
        self._out.append(Instruction("join", tuple(made), None, like.dtype, len(places), like.place))
        return self._out[-1]

    def _picked(self, like: Instruction, source: Instruction, registers: tuple[int, ...]) -> Instruction:
        if registers == tuple(range(source.count)):
            return source
        self._out.append(Instruction("pick", (source,), registers, source.dtype, len(registers), like.place))
        return self._out[-1]


def _captured(branch: Instruction) -> list[Instruction]:
    """The values from before a branch that its blocks use."""
    inside = [each for block in branch.blocks for each in block.instructions]
    used = [value for each in inside for value in each.args]
    used += [value for block in branch.blocks for value in block.results]
    made = frozenset(inside)
    return [value for value in dict.fromkeys(used) if value not in made]


def _part(join: Instruction, register: int) -> _Place:
    """The operand of a join that has a register, and which of its own that is."""
    for part in join.args:
        if register < part.count:
            return part, register
        register -= part.count
    raise AssertionError(f"{join} has no register {register}")
