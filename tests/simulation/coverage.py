"""Shows how often what happened in worlds: each fault, each message that was lost, each log line."""

from __future__ import annotations

from collections import Counter

from mmo_trio.testing.world_plan import FaultKind


def coverage_table(counts: Counter[str]) -> str:
    """Return a table of what happened, with a line for each fault that never occurred."""
    rows = [f"{count:12,}  {name}" for name, count in sorted(counts.items())]
    never = [f"       never  fault {kind}" for kind in FaultKind if not counts[f"fault {kind}"]]
    return "\n".join([*rows, *never])
