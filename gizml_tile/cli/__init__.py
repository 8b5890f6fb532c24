"""The command line: ``gizml-tile COMMAND``, and the same as ``python -m gizml_tile COMMAND``.

==========  ===============================================================================
preview     the explicit program that kernels are rewritten to, or what that changes
ir          the tile IR of a launch, for a GPU with the layout of each tile
source      the code that a launch runs: LLVM IR, PTX or Metal Shading Language
explain     the plan of a launch with its reasons, and what bounds its time
check       a launch traced, checked and compiled, and simulated on random tensors for a GPU
cache       the compiled kernels kept on disk: listed, limited, cleared
==========  ===============================================================================

Each command is a module here of the same name, imported when the command is given: ``describe(parser)`` adds
its options, ``run(options)`` carries it out and returns the exit status. A further command is such a module
and a line in ``parser.COMMANDS`` and in this table.

Exit statuses: 0 where all is well, 1 for a mistake in the program, 2 for one in the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gizml_tile.cli.misuse import Misuse
from gizml_tile.cli.parser import parse
from gizml_tile.errors import TileError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 where all is well, 1 for a mistake in the program, 2 for one in the command."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        return int(options.run(options) or 0)
    except TileError as error:
        print(error, file=sys.stderr)
        return 1
    except Misuse as error:
        print(f"gizml-tile: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has seen enough; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
