"""Makes the samples and the exact arithmetic of the tests of numbers importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "numbers"))
