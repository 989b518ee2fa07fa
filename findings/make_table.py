"""Writes the table of `findings/README.md` from the heads of the scripts beside it."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = ("Package", "Expected", "Seen", "Matters")
COLUMNS = {"Package": "Package and version", "Seen": "What it does", "Matters": "Where it matters"}
"""The fields that the table shows, with the titles of their columns."""

_FIELD = re.compile(r"^# (\w+): (.+(?:\n#   .+)*)$", re.MULTILINE)
_TABLE = re.compile(r"(?<=<!-- the table -->\n).*(?=<!-- /the table -->)", re.DOTALL)


def read_head(script: Path) -> dict[str, str]:
    """Return the fields of a script's head. Raises ValueError if one is missing."""
    found = _FIELD.findall(script.read_text(encoding="utf-8"))
    head = {name: text.replace("\n#   ", " ") for name, text in found}
    missing = [name for name in FIELDS if name not in head]
    if missing:
        raise ValueError(f"{script.name} lacks {', '.join(missing)} in its head")
    return head


def make_page() -> str:
    """Return the page with a table of the scripts that are there."""
    rows = [f"| Finding | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
    for script in sorted(HERE.glob("*.sh")):
        head = read_head(script)
        cells = [head[field].replace("|", "\\|") for field in COLUMNS]
        rows.append(f"| [{script.stem}]({script.name}) | {' | '.join(cells)} |")

    table = "\n".join(["", *rows, "", ""])
    page = (HERE / "README.md").read_text(encoding="utf-8")
    return _TABLE.sub(lambda _: table, page)


if __name__ == "__main__":
    (HERE / "README.md").write_text(make_page(), encoding="utf-8")
