"""``python -m gizml_tile``: the command line."""

import sys

from gizml_tile.cli import main

sys.exit(main())
