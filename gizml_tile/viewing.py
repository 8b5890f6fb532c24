"""From a launch to the page that shows what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from gizml_tile import build, gpu
from gizml_tile.looking import Seen, look_at, steps_of
from gizml_tile.nodes import Node
from gizml_tile.page import Html, data, render
from gizml_tile.page.drawings import Drawings
from gizml_tile.page.places import Places
from gizml_tile.specialise import Request
from gizml_tile.text import Line, lines

if TYPE_CHECKING:
    from gizml_tile.frontend import Rewritten, Source
    from gizml_tile.lowering.emit.lines import Origins
    from gizml_tile.lowering.explanation import Explanation
    from gizml_tile.lowering.kernel_ir.instructions import Kernel
    from gizml_tile.lowering.kernel_ir.text import Line as KernelLine
    from gizml_tile.lowering.planning.plan import Plan

# What the text for each kind of device is called, and the language that its words are coloured for.
_TEXTS = {
    "cpu": ("LLVM IR", "llvm"),
    "cuda": ("PTX", "ptx"),
    "hip": ("LLVM IR", "llvm"),
    "metal": ("Metal", "metal"),
}


def view(
    request: Request,
    source: Source,
    rewritten: Rewritten,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> Html:
    """The page of a launch of a rewritten kernel, for a target."""
    return render(page(request, source, rewritten, kind, arch, storage))


def page(
    request: Request,
    source: Source,
    rewritten: Rewritten,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> data.Page:
    """What the page of a launch shows."""
    seen = look_at(request, kind, arch, storage)
    places = Places()
    known = _known(source)
    for line in known:
        places.number(*line)
    explicit = data.Pane(
        "explicit",
        "Explicit program",
        "python",
        tuple(rewritten.text.rstrip("\n").split("\n")),
        tuple(
            places.link_of((source.filename, line) for line in lines)
            for lines in rewritten.lines[: rewritten.text.rstrip("\n").count("\n") + 1]
        ),
    )
    drawings = Drawings()
    make = _on_cpu if seen.target.kind == "cpu" else _on_gpu
    found = _joined([make(step, places, drawings) for step in steps_of(seen)])
    panes = (places.source(known), explicit, *found.panes)
    return data.Page(
        title=request.name,
        target=str(seen.target),
        facts=found.facts,
        files=places.files(),
        places=places.all(),
        links=tuple(places.links),
        panes=panes,
        drawings=drawings.all(),
        costs=found.costs,
        decisions=found.decisions,
        timelines=found.timelines,
        plan=found.plan,
    )


def _known(source: Source) -> dict[tuple[str, int], str]:
    """The lines of a function as they were when it was decorated: the file may have changed since."""
    count = source.original.rstrip().count("\n") + 1
    texts = source.padded.split("\n")[1 : 1 + count]
    return {(source.filename, source.line + number): text for number, text in enumerate(texts)}


@dataclass(frozen=True, slots=True)
class _Parts:
    """What of a page depends on the kind of target."""

    facts: tuple[str, ...]
    panes: tuple[data.Pane, ...]
    costs: tuple[data.Cost, ...] = ()
    decisions: tuple[data.Decision, ...] = ()
    timelines: tuple[data.Timeline, ...] = ()
    plan: tuple[data.Section, ...] = ()


def _joined(parts: Sequence[_Parts]) -> _Parts:
    """The parts of programs that a launch runs one after the other."""
    first, *others = parts
    for other in others:
        first = _Parts(
            first.facts,
            tuple(map(_pane_of_both, first.panes, other.panes)),
            first.costs + other.costs,
            first.decisions + other.decisions,
            first.timelines + other.timelines,
            first.plan + other.plan,
        )
    return first


def _pane_of_both(first: data.Pane, other: data.Pane) -> data.Pane:
    start = len(first.lines) + 1
    drawings = first.drawings | {start + line: found for line, found in other.drawings.items()}
    lines, links = (*first.lines, "", *other.lines), (*first.links, -1, *other.links)
    return replace(first, lines=lines, links=links, drawings=drawings)


def _on_cpu(seen: Seen, places: Places, drawings: Drawings) -> _Parts:
    program, layout, prepared = seen.program, seen.layout(), seen.prepared
    artifact = build.emitted(program, layout)
    tile_ir = _pane("tile", "Tile IR", "ir", lines(program, places=False), places)
    return _Parts(
        facts=(f"{artifact.arena_bytes} bytes of memory a thread",),
        panes=(tile_ir, _text(seen.target.kind, artifact.text, artifact.origins, places)),
        plan=_plan(
            build.explain(program, layout, prepared.infos, prepared.grid, prepared.scalars, None)
        ),
    )


def _on_gpu(seen: Seen, places: Places, drawings: Drawings) -> _Parts:
    from gizml_tile.lowering.kernel_ir import text as kernel_text

    program, layout = seen.program, seen.gpu_layout()
    plan, kernel = gpu.plan(program, layout), gpu.kernel(program, layout)
    emitted = gpu.emitted(program, layout)
    explained = gpu.explain(
        program, layout, seen.infos(), seen.prepared.grid, seen.prepared.scalars, measured=None
    )
    written = lines(plan.program, places=False, layouts=plan.layout_name)
    tile_ir = _pane("tile", "Tile IR", "ir", written, places, partial(drawings.of, plan))
    return _Parts(
        facts=(
            f"{kernel.threads} threads",
            f"{kernel.workgroup_memory} of {plan.target.facts.workgroup_memory} bytes of workgroup memory",
        ),
        panes=(
            tile_ir,
            _pane("kernel", "Kernel IR", "ir", kernel_text.lines(kernel, places=False), places),
            _text(seen.target.kind, emitted.text, emitted.origins, places),
        ),
        costs=tuple(
            data.Cost(each.text, each.fix, each.share, places.link(each.place)) for each in explained.costs
        ),
        decisions=tuple(_decisions(plan, explained, places)),
        timelines=tuple(_timelines(plan, kernel, places)),
        plan=_plan(explained),
    )


def _plan(explained: Explanation) -> tuple[data.Section, ...]:
    """The plan in words, without what the page shows as tables."""
    from gizml_tile.lowering.explanation import VARIANTS

    return tuple(
        data.Section(each.title, each.lines) for each in explained.sections if each.title != VARIANTS
    )


def _pane(
    name: str,
    title: str,
    language: str,
    lines: Sequence[Line | KernelLine],
    places: Places,
    drawings_of: Callable[[Node, int], tuple[int, ...]] | None = None,
) -> data.Pane:
    links = tuple(places.link(line.place) for line in lines)
    drawn = {}
    for number, (line, link) in enumerate(zip(lines, links, strict=True)):
        if drawings_of is not None and isinstance(line, Line) and line.node is not None:
            found = drawings_of(line.node, link)
            if found:
                drawn[number] = found
    return data.Pane(name, title, language, tuple(line.text for line in lines), links, drawn)


def _text(kind: str, text: str, origins: Origins, places: Places) -> data.Pane:
    from gizml_tile.lowering.emit.lines import places_of

    text = text.rstrip("\n")
    title, language = _TEXTS[kind]
    links = tuple(places.link(place) for place in places_of(text, origins))
    return data.Pane("text", title, language, tuple(text.split("\n")), links)


def _decisions(plan: Plan, explained: Explanation, places: Places) -> Iterator[data.Decision]:
    """The variants of each operation that has some, then remarks."""
    from gizml_tile.lowering.explain import described

    for each in explained.decisions:
        variants = tuple(
            data.Variant(one.name, each.choice.verdict(one), one.reason) for one in each.choice.candidates
        )
        yield data.Decision(f"{each.operation}: {each.what}", places.link(each.place), variants)
    for node, reason in plan.reasons.items():
        yield data.Decision(described(plan, node), places.link(node.place), (), reason)


def _timelines(plan: Plan, kernel: Kernel, places: Places) -> Iterator[data.Timeline]:
    from gizml_tile.lowering.timeline import timelines

    for each in timelines(plan, kernel):
        tracks = tuple(
            data.Track(
                track.role,
                tuple(
                    data.Step(step.kind, step.text, places.link(step.place), step.times)
                    for step in track.steps
                ),
            )
            for track in each.tracks
        )
        title = f"blocks of {' and '.join(each.blocks)}"
        link = places.link(each.loop.place)
        yield data.Timeline(title, link, each.blocks, each.slots, each.ahead, each.before, each.kept, tracks)
