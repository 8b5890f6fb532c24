"""The decorators: a function written over tiles becomes a kernel that launches, or a helper of kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from gizml_tile import frontend, looking
from gizml_tile.arguments import ScalarArgument, TensorArgument
from gizml_tile.captures import Reading, freeze, read
from gizml_tile.configs import Configurations, label
from gizml_tile.debugging import asked
from gizml_tile.dtypes import F32, I64
from gizml_tile.errors import Place, TileError, here
from gizml_tile.gridded import Gridded
from gizml_tile.grids import GridSpec, resolve
from gizml_tile.helpful import Helpful, told, wrong_call
from gizml_tile.launch import CacheInfo, State, Traces, lock
from gizml_tile.notebooks import beside
from gizml_tile.program import Program
from gizml_tile.repeat import Repeat, Repeats, key_of, repeat_of
from gizml_tile.runtime.tensors import describe
from gizml_tile.signature import Arguments, Leaf, Values, signature_of
from gizml_tile.specialise import Launched, Request, launch
from gizml_tile.tracing import active
from gizml_tile.tune import OPTIONS, Candidate, choose

if TYPE_CHECKING:
    from gizml_tile.frontend.rewriting import What

_OPTIONS = ("stream", "debug", *OPTIONS)
_NUMBERS = {"int": I64, "float": F32}


class _Written(Helpful):
    """A function of the person's, with the source it had when it was decorated, rewritten on first use."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    _example = "kernel"
    _habits = "KERNEL"

    def __init__(self, function: FunctionType, kind: What, depth: int) -> None:
        self._kind: What = kind
        self._source = frontend.capture(function, depth + 1)
        wrapper: Any = self
        functools.update_wrapper(wrapper, function)

    @property
    def _rewritten(self) -> Any:
        with lock():
            return frontend.rewrite(self._source, self._kind)

    def __reduce__(self) -> str:
        return self.__qualname__

    def _told(self) -> str:
        return f"the {self._kind} {self.__name__}"

    def __repr__(self) -> str:
        return f"<{self._kind} {self.__name__}>"

    def _repr_html_(self) -> str:
        """The function as a notebook shows it: as it was written, and the explicit program that it means."""
        rewritten = self._rewritten
        return beside(("as written", rewritten.original), ("explicit program", rewritten.text))

    def preview(self, diff: bool = False) -> str:
        """The explicit program that the function is rewritten to, or what that changes in the source."""
        return looking.preview(self._rewritten, diff=diff)


def _plain(function: object, what: str) -> FunctionType:
    """The function that is decorated, which of a static method stands behind it."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        raise TileError(
            f"@tile.{what} takes a function written with def or lambda, found {_found(function)}",
            here(),
        )
    return function


def _found(value: object) -> str:
    if isinstance(value, BuiltinFunctionType):
        return f"the built-in function {value.__name__}"
    return type(value).__name__


class Function(_Written):
    """A helper that kernels call: rewritten as they are, and traced where it is called."""

    def __init__(self, function: Callable[..., Any], depth: int) -> None:
        super().__init__(_plain(function, "function"), "function", depth + 1)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the helper: in a kernel the rewritten one, elsewhere the function as it was written."""
        if active() is None:
            return self.__wrapped__(*args, **named)
        function = self._rewritten.function
        try:
            return function(*args, **named)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise wrong_call(self.__wrapped__, args, named, method=False) from None
            raise

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


class Kernel(_Written):
    """A function over tiles that is launched by calling it."""

    def __init__(
        self,
        function: Callable[..., Any],
        grid: GridSpec | None,
        configs: Iterable[object] | None,
        measure: bool,
        depth: int,
    ) -> None:
        plain = _plain(function, "kernel")
        self._signature = signature_of(plain, here())
        self._configs = None if configs is None else Configurations(configs, self._signature, here())
        super().__init__(plain, "kernel", depth + 1)
        self._name = self._signature.name
        self.grid = grid
        self._traces = Traces()
        self._measure = measure
        self._reading: Reading | None = None
        # Calls on the decorator's grid without constants, which are the most common, and all others.
        self._repeats: tuple[Repeat, ...] = ()
        self._more_repeats = Repeats()

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch on the decorator's grid; the written tensors in the order of the ``write`` calls."""
        if not named and not State.tracing:
            for repeat in self._repeats:
                results = repeat(*args)
                if results is not None:
                    self._traces.hits += 1
                    return results
        return self._launch(self.grid, args, named)

    def __getitem__(self, grid: GridSpec) -> Gridded:
        """The kernel with another grid: an int, up to three ints, or a function of the arguments."""
        return Gridded(self, grid)

    @property
    def configured(self) -> frozenset[str]:
        """The constants that every configuration gives; none for a kernel without configurations."""
        return frozenset() if self._configs is None else self._configs.given

    def cache_info(self) -> CacheInfo:
        """How often launches found their compiled code in memory, how often not, and how much is kept."""
        return self._traces.info()

    def best(self, *args: Any, **named: Any) -> Mapping[str, object]:
        """The configuration that a launch with these arguments uses. Raises TileError without configs."""
        return Gridded(self, self.grid).best(*args, **named)

    def ir(self, *args: Any, **named: Any) -> str:
        """The tile IR for these arguments as text, one node a line; nothing is launched.

        ``kind``, ``arch`` and ``warps`` choose the device; ``storage`` replaces the tensors' storage
        types, one for each ``read`` or ``write`` call in order.
        """
        return Gridded(self, self.grid).ir(*args, **named)

    def source(self, *args: Any, **named: Any) -> str:
        """The code that a launch with these arguments runs; takes what ``ir`` takes."""
        return Gridded(self, self.grid).source(*args, **named)

    def explain(self, *args: Any, **named: Any) -> str:
        """The plan for these arguments with its reasons; takes what ``ir`` takes.

        ``measure=True``, where no parameter has this name, launches the kernel where its tensors are, on
        copies of those that it writes, and says how long that takes, on a GPU beside what bounds it.
        """
        return Gridded(self, self.grid).explain(*args, **named)

    def view(self, *args: Any, **named: Any) -> str:
        """A page of HTML that shows what becomes of each line for these arguments; takes what ``ir`` takes.

        ``Path("page.html").write_text(kernel.view(...))`` keeps it for a browser; a notebook shows it.
        """
        return Gridded(self, self.grid).view(*args, **named)

    def simulate(self, *args: Any, **named: Any) -> Any:
        """Run these arguments on a simulated device; takes what ``ir`` takes."""
        return Gridded(self, self.grid).simulate(*args, **named)

    def _launch(self, grid: GridSpec | None, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        stream = named.pop("stream", None)
        key = key_of(grid, named, own=grid is self.grid)
        given = {}
        if stream is not None:
            from gizml_tile.runtime.streams import handle

            # Launches on a stream are known apart: only GPUs' repeats take one.
            key = None if key is None else (key, "stream")
            given = {"stream": handle(stream)}
        if key is not None and not State.tracing:
            for repeat in self._more_repeats.of(key):
                results = repeat(*args, **given)
                if results is not None:
                    self._traces.hits += 1
                    return results
        self._refuse_inside()
        constants = named
        if self._configs is not None:
            constants = {**named, **self._chosen(grid, args, named, self._measure, stream=stream)}
        results, launched = launch(self._traces, self._request(grid, args, constants), stream)
        if launched is not None and key is not None and self._more_repeats.is_second(key, launched):
            self._repeat(key, launched, args, grid, plain=not named and stream is None)
        return results

    def _repeat(
        self,
        key: Hashable,
        launched: Launched,
        args: tuple[Any, ...],
        grid: GridSpec | None,
        *,
        plain: bool,
    ) -> None:
        """Make later launches like this one natively, where that can be."""
        with lock():
            repeat = repeat_of(launched, args, grid)
            if repeat is None:
                return
            self._more_repeats.add(key, repeat)
            if plain and grid is self.grid:
                self._repeats = self._more_repeats.of(key)

    def _chosen(
        self,
        grid: GridSpec | None,
        args: tuple[Any, ...],
        named: Mapping[str, Any],
        measure: bool,
        *,
        launching: bool = True,
        stream: object = None,
    ) -> Mapping[str, object]:
        """The configuration to launch with."""
        assert self._configs is not None
        agreeing = self._configs.agreeing(named)
        candidates = [
            Candidate(label(config), self._request(grid, args, {**named, **config})) for config in agreeing
        ]
        chosen = choose(self._traces, candidates, measure, launching=launching, stream=stream)
        return agreeing[chosen]

    def _refuse_inside(self) -> None:
        tracing = active()
        if tracing is not None:
            raise TileError(
                f"kernel {self._name} is called inside of {tracing.name}; a kernel is launched from "
                "outside: write what kernels share as a @tile.function",
                here(),
            )

    def _bind(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Arguments, dict[str, Any]]:
        options = {name: named[name] for name in _OPTIONS if named.get(name) is not None}
        if options or any(name in named for name in _OPTIONS):
            named = {name: value for name, value in named.items() if name not in _OPTIONS}
        return self._signature.bind(args, named), options

    def _request(self, spec: GridSpec | None, args: tuple[Any, ...], named: Mapping[str, Any]) -> Request:
        arguments, options = self._bind(args, named)
        grid = resolve(spec, self._name, arguments.named())
        values = arguments.split()
        infos = {
            number: describe(leaf, f"argument {values.names[number]!r} of {self._name}")
            for number, leaf in enumerate(values.leaves)
            if values.kinds[number] == "tensor"
        }
        types = tuple(
            (infos[number].dtype, len(infos[number].shape)) if kind == "tensor" else kind
            for number, kind in enumerate(values.kinds)
        )
        reading = self._read()
        key = (
            types,
            tuple(map(_frame_key, values.frame)),
            tuple((name, freeze(value)) for name, value in arguments.constants.items()),
            tuple((name, freeze(value)) for name, value in options.items()),
            len(grid),
            asked(),
            reading.key,
        )
        body = functools.partial(self._body, values, arguments.constants, options, types)
        return Request(
            self._name,
            body,
            key,
            reading,
            grid,
            values.names,
            values.leaves,
            values.frame,
            infos,
            f"{self._name}()",
        )

    def _read(self) -> Reading:
        """What the function reads from outside itself now."""
        reading = self._reading
        if reading is None or reading.watch is None or not reading.watch.unchanged():
            reading = self._reading = read(self.__wrapped__, as_defined=True)
        return reading

    def _body(
        self,
        values: Values,
        constants: Mapping[str, object],
        options: Mapping[str, Any],
        types: tuple[Any, ...],
        p: Program,
    ) -> object:
        """The rewritten function on stand-ins for the arguments: what a trace records."""
        for option, value in options.items():
            getattr(p, option)(value)
        code = self._rewritten.function.__code__
        place = Place(code.co_filename, code.co_firstlineno, function=code.co_qualname)
        stand_ins: list[Any] = []
        for number, (name, kind) in enumerate(zip(values.names, types, strict=True)):
            if isinstance(kind, tuple):
                dtype, rank = kind
                stand_ins.append(TensorArgument(name, dtype, rank, number))
            else:
                stand_ins.append(p.arg(ScalarArgument(name, _NUMBERS[kind], number, place)))
        frame = [_fill(item, stand_ins) for item in values.frame]
        return self._rewritten.function(p, *frame, **constants)


def _fill(item: object, stand_ins: list[Any]) -> object:
    """A frame's value with the stand-ins in the places of its leaves."""
    if isinstance(item, Leaf):
        return stand_ins[item.number]
    if isinstance(item, tuple):
        parts: list[Any] = [_fill(part, stand_ins) for part in item]
        return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
    if isinstance(item, list):
        return [_fill(part, stand_ins) for part in item]
    return item


def _frame_key(item: object) -> Hashable:
    if isinstance(item, Leaf):
        return "leaf", item.number
    if isinstance(item, tuple | list):
        return type(item), *map(_frame_key, item)
    return freeze(item)


_Function = TypeVar("_Function", bound=Callable[..., Any])


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *, grid: GridSpec | None = None, configs: Iterable[object] | None = None, measure: bool = False
) -> Callable[[Callable[..., Any]], Kernel]: ...
@told
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    grid: GridSpec | None = None,
    configs: Iterable[object] | None = None,
    measure: bool = False,
) -> Any:
    """Make a function a kernel: its first parameter is the program, keyword-only ones are constants.

    ``grid`` is how many programs a launch has: an int, up to three ints, or a function of the arguments
    called by keyword. ``configs`` are mappings or records of constants to choose from: on a GPU the
    fastest, on the CPU the first unless ``measure`` or GIZML_TILE_TUNE=1 asks for the fastest.
    """
    if function is not None:
        return Kernel(function, grid, configs, measure, 1)
    return lambda decorated: Kernel(decorated, grid, configs, measure, 1)


@told
def function(function: Callable[..., Any], /) -> Function:
    """Make a function a helper that kernels call: rewritten as they are, traced where it is called."""
    return Function(function, 1)
