"""A kernel's configurations: sets of constants that a launch chooses from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gizml_tile.captures import freeze
from gizml_tile.errors import Place, TileError, here
from gizml_tile.records import fields
from gizml_tile.signature import Signature
from gizml_tile.tune import OPTIONS


class Configurations:
    """The configurations of one kernel, each a mapping of constants (``warps`` and ``stages`` too)."""

    def __init__(
        self, configs: Iterable[object], signature: Signature, place: Place | None
    ) -> None:
        self._name = signature.name
        if not isinstance(configs, Iterable) or isinstance(configs, Mapping | str):
            raise TileError(
                f"the configurations of kernel {self._name} are a list of mappings, found {configs!r}; write "
                "configs=[{'BLOCK': 64}, {'BLOCK': 128}]",
                place,
            )
        self._all = [_constants(config, signature, place) for config in configs]
        if not self._all:
            raise TileError(
                f"kernel {self._name} has an empty list of configurations; give at least one", place
            )

    @property
    def given(self) -> frozenset[str]:
        """The constants that each of them has."""
        return frozenset.intersection(*(frozenset(config) for config in self._all))

    def agreeing(self, given: Mapping[str, object]) -> list[Mapping[str, object]]:
        """The configurations that have the constants given in a call. Raises TileError if none has."""
        agreeing: list[Mapping[str, object]] = [
            config
            for config in self._all
            if all(
                freeze(config[name]) == freeze(value)
                for name, value in given.items()
                if name in config
            )
        ]
        if not agreeing:
            words = ", ".join(
                f"{name}={value!r}"
                for name, value in given.items()
                if any(name in config for config in self._all)
            )
            raise TileError(
                f"{self._name}() has no configuration with {words}; it has "
                f"{'; '.join(map(label, self._all))}",
                here(),
            )
        return agreeing


def label(config: Mapping[str, object]) -> str:
    """A configuration as a person writes it in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in config.items())


def _constants(config: object, signature: Signature, place: Place | None) -> dict[str, object]:
    constants = fields(config)
    if constants is None:
        raise TileError(
            f"a configuration of kernel {signature.name} is a mapping or a record of constants, "
            f"found {config!r}",
            place,
        )
    for name in constants:
        if not (name in signature.constants or name in OPTIONS or signature.more_constants):
            raise TileError(
                f"a configuration of kernel {signature.name} has {name!r}, which is not one of its "
                f"constants: {', '.join((*signature.constants, *OPTIONS))}",
                place,
            )
    return constants
