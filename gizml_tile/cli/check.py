"""``gizml-tile check``: a launch traced, checked and compiled, and for a GPU simulated on random tensors."""

from __future__ import annotations

import argparse
import warnings

from gizml_tile.cli import launches

# Larger launches than this would take minutes to simulate.
_SIMULATED_ELEMENTS = 1 << 22


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    launches.describe(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out the command; 1 where the simulation finds a mistake."""
    launch = launches.launch(options)
    name, named = launch.kernel.__name__, launch.named
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        launch.gridded.check(**named)
    for warning in found:
        print(f"{warning.filename}:{warning.lineno}: {warning.message}")
    if named.get("kind", "cpu") == "cpu":
        print(f"{name}: no errors, {len(found)} warnings")
        return 0
    if sum(item.size for item in launch.tensors) > _SIMULATED_ELEMENTS:
        more = f"not simulated, as the tensors have more than {_SIMULATED_ELEMENTS} elements"
        print(f"{name}: no errors, {len(found)} warnings; {more}")
        return 0
    launch.fill()
    with warnings.catch_warnings():
        # They were shown already.
        warnings.simplefilter("ignore")
        findings = launch.gridded.simulate(**named, debug=True).findings
    for finding in findings:
        print(finding)
    wrong = sum(not finding.is_cost for finding in findings)
    costs = len(findings) - wrong
    print(f"{name}: {wrong or 'no'} errors, {len(found)} warnings, {costs} costs, simulated")
    return 1 if wrong else 0
