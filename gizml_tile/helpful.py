"""Wrong names and wrong calls of public objects: located errors that name the right ones."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

from gizml_tile.errors import Place, TileAttributeError, TileError, here

_EMPTY = inspect.Parameter.empty
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# The parameters that newcomers leave out, and what they are; of some functions they are something else.
_GRID_AXIS = "the axis of the grid is 0, 1 or 2"
_MEANINGS = {
    "id axis": _GRID_AXIS,
    "count axis": _GRID_AXIS,
    "dim axis": "the axis is a dimension of the tensor, from 0",
    "blocks axis": "the axis is a dimension of the tensor, from 0",
    "batch axis": "the axis is 1 (down the rows) or 2 (along the columns)",
    "axis": "the axis is 0 (down the rows) or 1 (along the columns)",
    "block": "the block's sizes are a list such as [64, 64]",
    "coords": "the coordinates are a list with one number for each dimension of the tensor",
    "offsets": "the offsets are a list with the first element's place along each dimension of the tensor",
    "shape": "the shape is a list such as [64, 64]",
    "grid": "the grid is how many programs run: an int, or a tuple of up to three",
    "body": "the body is a function of the program",
    "fold body": "the body is a function of the turn's number and of what is carried",
    "loop body": "the body is a function of the turn's number and of a list of what is carried",
}

# How alike two names are, of 0 to 1, for the one to be proposed in place of the other.
_NEAR = 0.5
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Helpful:
    """A public object: names that it does not have, and wrong calls of those it has, are located errors."""

    __slots__ = ()

    # What examples call such an object, and the name of the table of other systems' words for its methods.
    _example: ClassVar[str] = "x"
    _habits: ClassVar[str] = ""
    # What makes such objects, for those who call the class.
    _made_by: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_made_by" in vars(cls):
            cls.__init__ = _by_programs(cls.__init__)  # type: ignore[method-assign]
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, told(method, method=True))

    def _told(self) -> str:
        """What errors call the object, as in ``an index``."""
        raise NotImplementedError

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)


def no_attribute(value: Helpful, name: str) -> AttributeError:
    """The error for a name that a public object does not have."""
    if name.startswith("_"):
        return AttributeError(f"{type(value).__name__} has no attribute {name!r}")
    place = here()
    it = _receiver(place, name) or value._example
    advice = _advice(type(value), name, value._habits, it)
    return TileAttributeError(f"{value._told()} has no {name!r}{advice}", place)


class Sizes(tuple[Any, ...]):
    """The sizes of a tensor or a tile, which say how many they are where another is asked for."""

    __slots__ = ()

    def __getitem__(self, axis: Any) -> Any:
        try:
            return super().__getitem__(axis)
        except IndexError:
            last = len(self) - 1
            message = f"there are {len(self)} sizes, of the axes {-len(self)} to {last}, found axis {axis}"
            raise TileError(message, here()) from None


def _by_programs(init: Callable[..., None]) -> Callable[..., None]:
    """The ``__init__`` of a class whose objects only a trace makes, which gives itself or a block first."""

    @functools.wraps(init)
    def make(self: Helpful, *args: Any, **named: Any) -> None:
        if not args or not getattr(type(args[0]), "_makes_values", False):
            name = type(self).__name__
            raise TileError(f"{name} is not called by programs; {self._made_by}", here())
        init(self, *args, **named)

    return make


class Fixed(Helpful):
    """A public object whose attributes are not assigned."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if name[0] == "_":
            object.__setattr__(self, name, value)
            return
        place = here()
        way = self._instead(name, _receiver(place, name) or self._example)
        raise TileAttributeError(f"{self._told()} is not changed, and its {name!r} not assigned{way}", place)

    def _instead(self, name: str, it: str) -> str:
        """What to write instead of an assignment."""
        return ""


def told(function: _Function, *, method: bool = False) -> _Function:
    """A public function whose wrong calls are errors that show how it is called."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError as error:
            traceback = error.__traceback__
            if traceback is not None and traceback.tb_next is None:
                raise wrong_call(function, args, named, method=method) from None
            raise

    return cast(_Function, call)


def called(function: Callable[..., Any], what: str, names: str, *args: Any, **named: Any) -> Any:
    """What a function of the person's gives. Raises TileError where it does not take such arguments.

    ``what`` is what the function is in errors, ``names`` what it is called with.
    """
    try:
        return function(*args, **named)
    except TypeError as error:
        refuse_call(error, function, what, names)
        raise


def refuse_call(error: TypeError, function: Callable[..., Any], what: str, names: str) -> None:
    """Raise TileError if an error of a call is that the person's function does not take such arguments."""
    traceback = error.__traceback__
    if traceback is None or traceback.tb_next is not None or not inspect.isroutine(function):
        return
    takes = _parameters_of(function)
    found = str(error) if takes is None else f"a function of {takes or 'nothing'}"
    raise TileError(f"{what} is called with {names}, found {found}", here()) from None


def _example_of(args: tuple[Any, ...]) -> str:
    return args[0]._example if args and isinstance(args[0], Helpful) else "x"


def _parameters_of(function: Callable[..., Any]) -> str | None:
    try:
        return ", ".join(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def missing_name(known: Iterable[str], name: str, habits: str) -> TileAttributeError:
    """The error for a name that a module of ours does not have."""
    place = here()
    it = _receiver(place, name) or "tile"
    advice = _habit(habits, name, it) or _of_a_value(name) or nearest(name, known)
    return TileAttributeError(f"{it} has no {name!r}{advice}", place)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'sum'?`` for the known name that is nearest to one, or nothing."""
    import difflib

    public = [each for each in known if not each.startswith("_")]
    lower = {each.lower(): each for each in public}
    near = difflib.get_close_matches(name.lower(), lower, 1, _NEAR)
    return f"; did you mean {lower[near[0]]!r}?" if near else ""


def _advice(kind: type, name: str, habits: str, it: str) -> str:
    """What to write instead of a name that a class does not have."""
    return (
        _habit(habits, name, it)
        or _elsewhere(kind, name, it)
        or nearest(name, dir(kind))
        or _habit(habits, _near_habit(habits, name), it)
    )


def _near_habit(table: str, name: str) -> str:
    """The word of a table of other systems' words that a name is a slip of."""
    import difflib

    from gizml_tile import habits

    near = difflib.get_close_matches(name, getattr(habits, table, ()), 1, _NEAR)
    return near[0] if near else name


def _habit(table: str, name: str, it: str) -> str:
    if not table:
        return ""
    from gizml_tile import habits

    words: Mapping[str, str] = getattr(habits, table)
    return f"; {words[name].format(it=it)}" if name in words else ""


def _elsewhere(kind: type, name: str, it: str) -> str:
    """Of which other objects a name is."""
    from gizml_tile.arguments import TensorArgument
    from gizml_tile.index import Index
    from gizml_tile.program import Program
    from gizml_tile.tile import Tile
    from gizml_tile.views import In, Out

    if issubclass(kind, TensorArgument) and (hasattr(Tile, name) or hasattr(In, name)):
        of_view = "A" if hasattr(In, name) else "A[i, k]"
        return f"; read it in blocks first, A = p.read({it}, [rows, columns]), then {of_view}.{name}"

    if issubclass(kind, Tile | Index) and hasattr(Program, name):
        return f"; it is of the program: p.{name}(...)"
    if issubclass(kind, Index) and hasattr(Tile, name):
        return f"; it is of tiles: {it}.value() makes one of an index"
    if issubclass(kind, Program) and hasattr(Tile, name):
        return f"; it is of tiles: x.{name}(...)"
    if issubclass(kind, In) and hasattr(Tile, name):
        return f"; it is of a block: {it}[i, k].{name}(...)"
    if issubclass(kind, In) and hasattr(Out, name):
        return f"; it is of outputs: C = p.write(tensor, block), then C.{name}(...)"
    return ""


def _of_a_value(name: str) -> str:
    """That a name is a method of tiles or of the program."""
    from gizml_tile.program import Program
    from gizml_tile.tile import Tile

    if hasattr(Tile, name):
        return f"; it is of tiles: x.{name}(...)"
    return f"; it is of the program: p.{name}(...)" if hasattr(Program, name) else ""


def _receiver(place: Place | None, name: str) -> str:
    """What stands before ``.name`` in the person's expression, where that is a name or a chain of them."""
    if place is None:
        return ""
    source = linecache.getline(place.filename, place.line)[place.column - 1 :]
    match = re.match(rf"([A-Za-z_][\w.]*)\.{re.escape(name)}\b", source)
    return match[1] if match else ""


def wrong_call(
    function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any], *, method: bool
) -> TileError:
    """The error for a call that a public function does not take, which shows how it is called.

    A method's first argument is what it is called on.
    """
    place = here()
    it = _receiver(place, function.__name__) or (_example_of(args) if method else "")
    return TileError(_wrong(function, it, args, named, method=method), place)


def not_called(function: Callable[..., Any], name: str, *, of_class: bool = False) -> str:
    """That a function or method stands where what it gives was meant, and how it is called by its name."""
    parameters = list(inspect.signature(function).parameters.values())[of_class:]
    shown = ", ".join(_shown(each) for each in parameters if not _is_hidden(each))
    meanings = [_meaning(function.__name__, each.name) for each in parameters if each.default is _EMPTY]
    form = "; ".join([f"{name}({shown})", *(each for each in meanings if each)])
    what = "method" if of_class or inspect.ismethod(function) else "function"
    return f"{name} is a {what}, found without its call; write {form}"


def _wrong(
    function: Callable[..., Any], it: str, args: tuple[Any, ...], named: Mapping[str, Any], *, method: bool
) -> str:
    """What is wrong with a call, and how it is called."""
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    given = len(args) - (1 if method else 0)
    shown = ", ".join(_shown(each) for each in parameters if not _is_hidden(each))
    form = f"{it}.{name}({shown})" if it else f"{name}({shown})"
    by_place = [each for each in parameters if each.kind in _BY_PLACE]
    known = {each.name: each for each in parameters}
    strange = next((each for each in named if each not in known), None)
    if strange is not None:
        return f"{name} has no parameter {strange!r}{_keyword(strange, known)}; write {form}"
    twice = next((each.name for each in by_place[:given] if each.name in named), None)
    if twice is not None:
        return f"{name} has two values for {twice!r}; write {form}"
    missing = [each.name for each in by_place[given:] if each.default is _EMPTY and each.name not in named]
    if missing:
        owner = "batch" if method and getattr(args[0], "_is_batch", False) else name
        meanings = "".join(f"; {meaning}" for each in missing if (meaning := _meaning(owner, each)))
        return f"{name} needs {' and '.join(map(repr, missing))}: write {form}{meanings}"
    count = f"{len(by_place)} argument{'s' * (len(by_place) != 1)}" if by_place else "no arguments"
    keyword = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    by_name = f" and {', '.join(keyword)} by name" if keyword else ""
    return f"{name} takes {count}{by_name}, found {given}; write {form}{_list_hint(by_place, given)}"


def _list_hint(by_place: list[inspect.Parameter], given: int) -> str:
    """That several sizes or coordinates are one list, where that is what a call got wrong."""
    lists = ("shape", "block", "coords", "offsets")
    name = next((each.name for each in by_place if each.name in lists), None)
    return f"; {_MEANINGS[name]}" if name and given > len(by_place) else ""


def _meaning(function: str, parameter: str) -> str:
    return _MEANINGS.get(f"{function} {parameter}") or _MEANINGS.get(parameter, "")


def _keyword(name: str, known: Mapping[str, object]) -> str:
    from gizml_tile.habits import KEYWORDS, NEEDLESS

    if name in NEEDLESS:
        return f"; {NEEDLESS[name]}"
    if KEYWORDS.get(name) in known:
        return f"; here it is {KEYWORDS[name]!r}"
    return ""


def _is_hidden(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is none that a call gives by itself: what a decorator is given."""
    return parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is not _EMPTY


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "..."
    if parameter.default is _EMPTY:
        return parameter.name
    if isinstance(parameter.default, Enum):
        return f"{parameter.name}=tile.{parameter.default.name}"
    return f"{parameter.name}={parameter.default!r}"
