"""Defines the extent of the measurements."""

from __future__ import annotations

import tempfile
from pathlib import Path

from attrs import frozen


@frozen
class Options:
    """Holds the options of all benchmarks."""

    folder: Path
    """An empty folder that is removed afterwards."""
    rounds: int
    seconds: int
    minutes: float
    rows: int
    due: int
    idle: int

    @property
    def saved(self) -> Path:
        """Return a folder that outlives the run, for the large tables."""
        folder = Path(tempfile.gettempdir()) / "mmo-gateway-bench"
        folder.mkdir(exist_ok=True)
        return folder
