"""Writes the table of `findings/README.md` from the heads of the scripts beside it."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS = ("Package", "Seen", "Matters")
TABLE = re.compile(r"(?<=<!-- the table -->\n).*(?=<!-- /the table -->)", re.DOTALL)
FIELD = re.compile(r"^# (Package|Expected|Seen|Matters): (.+(?:\n#   .+)*)$", re.MULTILINE)


def read_head(script: Path) -> dict[str, str]:
    """Return the fields of a script's head. Raises ValueError if one is missing."""
    found = FIELD.findall(script.read_text(encoding="utf-8"))
    head = {name: text.replace("\n#   ", " ") for name, text in found}
    missing = {"Package", "Expected", "Seen", "Matters"} - head.keys()
    if missing:
        raise ValueError(f"{script.name} lacks {', '.join(sorted(missing))} in its head")
    return head


def make_page() -> str:
    """Return the page with a table of the scripts that are there."""
    rows = [
        "| Finding | Package and version | What it does | Where it matters |",
        "|---|---|---|---|",
    ]
    for script in sorted(HERE.glob("*.sh")):
        head = read_head(script)
        cells = [f"[`{script.stem}`]({script.name})", *(head[column] for column in COLUMNS)]
        rows.append(f"| {' | '.join(cells)} |")

    table = "\n".join(["", *rows, "", ""])
    page = (HERE / "README.md").read_text(encoding="utf-8")
    return TABLE.sub(lambda _: table, page)


if __name__ == "__main__":
    made = make_page()
    (HERE / "README.md").write_text(made, encoding="utf-8")
