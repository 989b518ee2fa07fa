"""How much is to be measured."""

from __future__ import annotations

import tempfile
from pathlib import Path

from attrs import frozen


@frozen
class Options:
    """What every benchmark is told; each looks at what concerns it."""

    folder: Path
    """Empty, and removed afterwards."""
    rounds: int
    seconds: int
    minutes: float
    rows: int
    due: int
    idle: int

    @property
    def kept(self) -> Path:
        """A folder that outlives the run, for what takes long to make: the million rows."""
        folder = Path(tempfile.gettempdir()) / "mmo-gateway-bench"
        folder.mkdir(exist_ok=True)
        return folder
