"""Makes the assembler and the small kernels of the folder beside importable from the tests here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "assemble"))
