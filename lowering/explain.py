"""A plan in words: how a program is launched, what moves where, which variants were taken, and its bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gizml_tile.lowering.advice import Advice, Prediction, advise, predict
from gizml_tile.lowering.advice.threads import registers_held, smaller
from gizml_tile.lowering.expand.expansion import Move
from gizml_tile.lowering.expand.kernel import expand_noting
from gizml_tile.lowering.explanation import VARIANTS, Bound, Decision, Explanation, Section
from gizml_tile.lowering.kernel_ir.instructions import Kernel
from gizml_tile.lowering.operations import how, is_exact_for_multiply_adds, is_exact_function
from gizml_tile.lowering.planning.plan import Plan
from gizml_tile.lowering.planning.reach import unreached
from gizml_tile.lowering.planning.turns import follows_from_tensors
from gizml_tile.lowering.planning.variants import Choice
from gizml_tile.lowering.tile_passes.pad import grown_blocks
from gizml_tile.lowering.work import MEMORY, Launch, Work, launch_work, parts_of
from gizml_tile.nodes import Combining, Node, View
from gizml_tile.text import attribute, duration, line_of


def explain(
    plan: Plan,
    launch: Launch | None = None,
    measured: float | None = None,
    spilled: int | None = None,
) -> Explanation:
    """The plan of a program with its reasons.

    With a ``launch`` also what bounds the time of all its programs; ``measured`` is that time in seconds.
    ``spilled`` are the bytes of a thread for which an assembler found no registers; None if none was asked.
    """
    kernel, moves = expand_noting(plan)
    predicted = None if launch is None else predict(plan, kernel, launch)
    costs = () if predicted is None else advise(predicted, moves)
    sections = (
        ("Launch", (*_launch(plan, kernel), *_spilled(plan, spilled))),
        ("Workgroup memory", _memory(plan, kernel)),
        ("Sizes that are no powers of two", grown_blocks(plan.program)),
        ("Tiles", _tiles(plan)),
        (VARIANTS, _variants(plan)),
        ("Moves between layouts", _moves(moves)),
        ("How operations are done", _operations(plan, moves)),
        (f"Work of {_together(kernel)}", _work(plan, kernel)),
        ("The launch", _whole(plan, launch, predicted, measured)),
        ("What costs time here, and what to do", _costs(predicted, costs)),
    )
    told = [Section(title, tuple(body)) for title, body in sections]
    return Explanation(
        f"{plan.program.name} for {plan.target}",
        tuple(section for section in told if section.lines),
        tuple(_decisions(plan)),
        costs,
        _bound_of(predicted),
        measured,
    )


def _launch(plan: Plan, kernel: Kernel) -> Iterator[str]:
    facts = plan.target.facts
    chosen = "as asked" if plan.program.warps else "chosen by the largest tile"
    if plan.overlaps and not plan.program.warps:
        chosen += " and what neighbouring reads share"
    yield f"{_count(plan.warps, 'warp')} of {facts.lanes} threads run a program ({chosen})"
    if plan.specialised is not None:
        yield from _roles(plan)
    if plan.group:
        yield (
            f"programs run in groups: {plan.group} along axis 1 for each along axis 0, so that programs "
            "which run together share blocks of both operands in the cache"
        )
    if plan.specialised is not None and plan.specialised.longest_first:
        yield "programs later along axis 0 begin first, as they take more turns"
    largest = max((layout.registers for layout in plan.layouts.values()), default=0)
    yield f"a thread holds up to {largest} elements of one tile in its {facts.registers} registers"
    if plan.resident > 1 and plan.specialised is None:
        most = facts.unit_registers // (plan.resident * plan.threads) // 8 * 8
        yield (
            f"{plan.resident} programs should share a multiprocessor, to hide each other's waiting: "
            f"at most {min(most, facts.registers)} registers a thread"
        )
    if plan.again:
        yield "for that, blocks stay as they were read, and what is cheap to make of them is made again"
    for node, kept in plan.parked.items():
        whole = plan.layouts[node].registers
        yield f"for that, {whole - kept} of {whole} elements of the {node.op} wait in workgroup memory"
    needed = max(kernel.workgroup_memory + facts.reserved_memory, 1)
    fitting = facts.unit_memory // needed
    if fitting < min(facts.unit_threads // plan.threads, facts.unit_workgroups):
        yield f"a multiprocessor has memory for {_count(fitting, 'program')} at a time"


def _spilled(plan: Plan, bytes: int | None) -> Iterator[str]:
    """What goes to memory and back, as there are too few registers."""
    held, room, _ = registers_held(plan)
    if bytes:
        text = f"the assembler finds no registers for {bytes} bytes of each thread, which spill to memory"
        yield f"{text}: {smaller(plan)}"
    elif bytes is None and held > room:
        yield f"about {held - room} registers of each thread may spill to memory: {smaller(plan)}"


def _together(kernel: Kernel) -> str:
    return "one program" if kernel.together == 1 else f"{kernel.together} programs in one workgroup"


def _roles(plan: Plan) -> Iterator[str]:
    found = plan.specialised
    assert found is not None
    yield (
        f"{_count(found.teams, 'team')} of {found.groups} x 4 warps multiply, and one thread of 4 warps more "
        f"brings blocks: a workgroup of {plan.launched_threads} threads"
    )
    if found.teams > 1:
        yield "each team has every second program; while one multiplies the other stores"
    if found.together > 1:
        together = f"{found.together} neighbours along axis {found.along}"
        yield f"{together} share a workgroup, each with warps of its own"
    if found.in_order:
        yield "groups of 4 warps begin the products of a turn one after the other"
    few, many = found.registers
    if many:
        yield f"those that multiply have {many} registers a thread and the others {few}"
    workgroups = "one workgroup" if found.resident == 1 else _count(found.resident, "workgroup")
    turns = "which runs programs in turn" if found.resident == 1 else "each of which runs programs in turn"
    runs = turns if found.persistent else "with one program each"
    yield f"a multiprocessor has {workgroups}, {runs}"
    if found.cluster is not None:
        size, kept = found.cluster.size, found.cluster.received_bytes(plan.threads)
        does = "each stores its columns" if found.cluster.columns else "the first does what follows"
        yield (
            f"a cluster of {size} workgroups runs each program: they take turns of the loop, send each other "
            f"their sums, {kept} bytes to one, and {does}"
        )
    for loop in found.loops:
        notes = ["products waited for a turn later"] if loop in found.flowing else []
        if found.chained.get(loop) is not None:
            notes.append("the last product of a turn made beside the first ones of the next")
        slots = [stream.slots for stream in found.streams if stream.loop is loop]
        rings = "a ring" if len(slots) == 1 else f"{len(slots)} rings"
        yield ", ".join([f"loop {line_of(loop.place)}: {rings} of {max(slots)} turns' blocks", *notes])


def _memory(plan: Plan, kernel: Kernel) -> Iterator[str]:
    if not kernel.buffers:
        return
    limit = plan.target.facts.workgroup_memory
    yield f"{kernel.workgroup_memory} of {limit} bytes; buffers that are never live together share bytes"
    forms = {_tensor_name(plan, node): stage.tile.name for node, stage in plan.stages.items()}
    for buffer in kernel.buffers:
        form = next((form for name, form in forms.items() if buffer.name.endswith(f"of {name}")), "")
        where = f"{buffer.offset}..{buffer.offset + buffer.bytes}"
        yield f"{where:<16} {buffer.name}" + (f": {form}" if form else "")


def _tiles(plan: Plan) -> Iterator[str]:
    """One line for each layout, with the lines of the program whose tiles have it."""
    holders: dict[str, list[str]] = {}
    for node in plan.program.body.walk():
        if node.is_tile and node.op not in ("const", "iota"):
            name = plan.layout_name(node)
            line = f"{node.op} {line_of(node.place)}".strip()
            holders.setdefault(name, [])
            if line not in holders[name]:
                holders[name].append(line)
    for name, lines in holders.items():
        yield f"{name}: {', '.join(lines)}"


def _decisions(plan: Plan) -> Iterator[Decision]:
    for node in plan.program.body.walk():
        for what, choice in plan.choices.get(node, ()):
            yield Decision(node.place, described(plan, node), what, choice)


def _variants(plan: Plan) -> Iterator[str]:
    for node in plan.program.body.walk():
        tables = plan.choices.get(node, ())
        for what, choice in tables:
            yield f"{line_of(node.place)}  {described(plan, node)}: {what}"
            yield from (f"  {line}" for line in _table(choice))
        if node in plan.reasons:
            yield f"{line_of(node.place)}  {described(plan, node)} {plan.reasons[node]}"


def _operations(plan: Plan, moves: Sequence[Move]) -> Iterator[str]:
    """What has no table of variants: on which line, how and why, each once."""
    found = ((node, how(plan, node, moves)) for node in plan.program.body.walk())
    lines = (f"{line_of(node.place)}  {described(plan, node)}: {told}" for node, told in found if told)
    yield from dict.fromkeys(lines)


def _table(choice: Choice) -> Iterator[str]:
    width = max(len(each.name) for each in choice.candidates)
    for each in choice.candidates:
        yield f"{each.name:<{width}}  {choice.verdict(each):<8}  {each.reason}".rstrip()


def _moves(moves: Iterable[Move]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for move in moves:
        line = f"{line_of(move.place)}  {move.text}"
        counts[line] = counts.get(line, 0) + 1
    for line, count in counts.items():
        yield line if count == 1 else f"{line}, {count} times"


def _work(plan: Plan, kernel: Kernel) -> Iterator[str]:
    for part in parts_of(plan, kernel):
        yield part.title
        yield from (f"  {line}" for line in _bound(plan, part.work))


def _bound(plan: Plan, work: Work) -> Iterator[str]:
    """What a part of the program does, and how long each resource takes at its full rate."""
    yield from _counts(work)
    spent = work.seconds(plan.target)
    if spent:
        told = ", ".join(f"{name} {1e6 * time:.2f} us" for name, time in spent.items())
        yield f"at full rates: {told}"
        yield f"bound by {_longest(spent)}{_cached(plan, spent)}"


def _counts(work: Work) -> Iterator[str]:
    if work.read or work.written:
        yield f"{sum(work.read.values()):.0f} bytes from tensors, {sum(work.written.values()):.0f} to tensors"
    if work.shared:
        barriers = f", {_count(round(work.barriers), 'barrier')}" if work.barriers else ""
        yield f"{work.shared:.0f} bytes to and from workgroup memory{barriers}"
    for name, count in work.multiply_adds.items():
        yield f"{count:.0f} multiply-adds by {name}"
    functions = f", of them {work.functions:.0f} of special functions" if work.functions else ""
    yield f"{work.instructions:.0f} instructions of a warp{functions}"


def _longest(spent: Mapping[str, float]) -> str:
    return max(spent, key=lambda name: spent[name])


def _cached(plan: Plan, spent: Mapping[str, float]) -> str:
    if plan.stages and _longest(spent) == MEMORY:
        return " if no program shared blocks in the cache"
    return ""


def _whole(
    plan: Plan, launch: Launch | None, predicted: Prediction | None, measured: float | None
) -> Iterator[str]:
    """The least time that all programs take together, and how far from it a launch was."""
    bound = None
    if launch is not None and launch.programs:
        units = plan.target.facts.units
        yield f"{_count(launch.programs, 'program')}, on {units} multiprocessors"
        if predicted is None:
            yield "how many turns loops take is not known before, so neither is what bounds it"
        else:
            spent = predicted.seconds
            yield from _counts(launch_work(predicted.lines, launch))
            bound = predicted.bound
            if spent:
                rates = ", ".join(f"{name} {duration(time)}" for name, time in spent.items())
                yield f"at full rates: {rates}"
                yield f"bound by {_longest(spent)}: {duration(bound)}"
            if follows_from_tensors(plan.program):
                yield "programs that tensors tell to do less count like those that do most"
        yield from unreached(plan.program, launch.shapes, launch.grid, launch.scalars)
    if measured is not None:
        distance = f", {measured / bound:.2f} times the bound" if bound else ""
        yield f"measured: {duration(measured)}{distance}"


def _bound_of(predicted: Prediction | None) -> Bound | None:
    if predicted is None or not predicted.seconds:
        return None
    return Bound(predicted.launch.programs, predicted.seconds)


def _costs(predicted: Prediction | None, costs: Sequence[Advice]) -> Iterator[str]:
    """The lines that take most of what bounds a launch, and what of it need not be."""
    if predicted is None or not predicted.bound:
        return
    resource = _longest(predicted.seconds)
    for line, share in predicted.most_of(resource):
        yield f"{line}  {share:.0%} of {resource}{_instead(predicted.plan, line, resource)}"
    for each in costs:
        yield f"{line_of(each.place)}  {each.kind}, {each.share:.0%} of the time: {each.text}"
        yield f"  to do: {each.fix}"


# As many registers of a thread for all products' results leave room for twice as many.
_FEW_RESULTS = 64


def _instead(plan: Plan, line: str, resource: str) -> str:
    """What would take less of what a line takes: other block sizes, or results that are less exact."""
    nodes = [node for node in plan.program.body.walk() if line_of(node.place) == line]
    if any(is_exact_for_multiply_adds(plan, node) for node in nodes):
        return "; F16 or BF16 operands, or precision='tf32', would go to the matrix units"
    results = sum(layout.registers for node, layout in plan.layouts.items() if node.op == "dot")
    if resource == "workgroup memory" and 0 < results <= _FEW_RESULTS and any(n.op == "dot" for n in nodes):
        return "; blocks with more rows or columns would take less of it for each multiply-add"
    exact = list(dict.fromkeys(node.op for node in nodes if is_exact_function(plan, node)))
    if resource == "issuing instructions" and exact:
        return f"; {' and '.join(exact)} with approx=True, or p.approx(), would take the device's own"
    return ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def described(plan: Plan, node: Node) -> str:
    """A node in a few words: what it does, with which tensor or types."""
    words = attribute(node, plan.program)
    if node.op == "dot":
        a, b = (f"{list(plan.program.written_shape(arg))} {arg.dtype}" for arg in node.args[:2])
        return f"dot {a} x {b}"
    if isinstance(node.attr, Combining):
        return f"{node.op} axis {node.attr.axis}"  # its function is in the program's text
    return f"{node.op} {words}".strip()


def _tensor_name(plan: Plan, node: Node) -> str:
    assert isinstance(node.attr, View)
    return plan.program.tensors[node.attr.tensor].name
