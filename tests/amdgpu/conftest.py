import sys
from pathlib import Path

for folder in ("amdgpu", "gpu", "random_programs"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
