"""``gizml-tile completion``: what a shell runs to complete this command's words at the Tab key."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import suppress

from gizml_tile.cli.complete import Candidate, candidates
from gizml_tile.cli.misuse import Misuse

# Bash takes a word apart at these, and replaces the last part alone.
_BREAKS = ":="

_BASH = r"""
_gizml_tile() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do COMPREPLY+=("$word"); done \
        < <(gizml-tile completion bash --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case "${COMPREPLY[0]}" in *[=:/[]) compopt -o nospace ;; esac
}
complete -F _gizml_tile gizml-tile
"""
_ZSH = r"""
_gizml_tile() {
    local -a found unfinished
    found=("${(@f)$(gizml-tile completion zsh --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    unfinished=(${(M)found:#*[=:/\[]})
    found=(${found:#*[=:/\[]})
    (( ${#found} )) && compadd -- "${found[@]}"
    (( ${#unfinished} )) && compadd -S '' -- "${unfinished[@]}"
}
compdef _gizml_tile gizml-tile
"""
_FISH = r"""
function _gizml_tile
    gizml-tile completion fish --line (commandline -cp | string collect) 2>/dev/null
end
complete -c gizml-tile -f -a '(_gizml_tile)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_WAYS = {
    "bash": 'eval "$(gizml-tile completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(gizml-tile completion zsh)"  # in ~/.zshrc, after compinit',
    "fish": "gizml-tile completion fish | source  # in ~/.config/fish/config.fish",
}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("shell", choices=list(_SCRIPTS), help="which shell's script to print")
    parser.add_argument("--line", help=argparse.SUPPRESS)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(
        ["to be evaluated where the shell starts:", *(f"  {way}" for way in _WAYS.values())]
    )


def run(options: argparse.Namespace) -> int:
    """Carry out the command; with ``--line``, which the scripts give, tell what its last word may become."""
    if options.line is None:
        print(_SCRIPTS[options.shell].strip())
        return 0
    words = _words(options.line)
    try:
        found = candidates(words[1:])
    except Misuse:
        return 0
    for each in found:
        print(_told(each, options.shell, words[-1]))
    return 0


def _words(line: str) -> Sequence[str]:
    """A line's words, of which the last may be quoted without an end, or empty."""
    words = line.split()
    for end in ("", "'", '"'):
        with suppress(ValueError):
            words = shlex.split(line + end)
            break
    return [*words, ""] if not line or line[-1].isspace() else words


def _told(candidate: Candidate, shell: str, typed: str) -> str:
    """A candidate as a shell takes it."""
    if shell == "fish":
        return f"{candidate.word}\t{candidate.help}"
    if shell == "bash":
        return candidate.word[max(map(typed.rfind, _BREAKS)) + 1 :]
    return candidate.word
