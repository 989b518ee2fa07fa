"""The source tree as the structure tests read it: every module's path and syntax tree."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"


def modules() -> dict[str, Path]:
    """Return the path of every module by its dotted name; a package stands for its `__init__`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
