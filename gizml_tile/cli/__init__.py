"""The command line: ``gizml-tile COMMAND``, and the same as ``python -m gizml_tile COMMAND``.

==========  ===============================================================================
preview     the explicit program that kernels are rewritten to, or what that changes
ir          the tile IR of a launch, for a GPU with the layout of each tile
source      the code that a launch runs: LLVM IR, PTX or Metal Shading Language
explain     the plan of a launch with its reasons, and what bounds its time
view        a page for the browser that shows what becomes of each line of a kernel
check       a launch traced, compiled and run on random tensors, for GPUs simulated
bench       how long launches on random tensors take, beside the device's measured ceilings
devices     the CPU and the GPUs that are here, and what is missing to use others
cache       the compiled kernels kept on disk: listed, limited, cleared
completion  what a shell runs to complete the words of this command
==========  ===============================================================================

Each command is a module here of the same name, imported when the command is given: ``describe(parser)`` adds
its options, ``run(options)`` carries it out and returns the exit status. A further command is such a module
and a line in ``parser.COMMANDS`` and in this table.

========  ===========================================================================
0         all is well
1         a mistake in the person's program
2         a mistake in the command
3         ``check --strict``: no mistake, but something to look at
130       interrupted from the keyboard
========  ===========================================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gizml_tile.cli.misuse import Failure, Misuse
from gizml_tile.cli.parser import parse
from gizml_tile.cli.person import place_of
from gizml_tile.errors import TileError

_MISTAKE, _MISUSE, _INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except TileError as error:
        print(error if place_of(error) else f"gizml-tile: {error.message}", file=sys.stderr)
        return _MISTAKE
    except Failure as error:
        print(error, file=sys.stderr)
        return _MISTAKE
    except Misuse as error:
        print(f"gizml-tile: {error}", file=sys.stderr)
        return _MISUSE
    except KeyboardInterrupt:
        print("gizml-tile: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
