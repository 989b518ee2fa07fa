"""The tutorial runs: each block of code prints what the block after it shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_prints_what_the_page_says(root: Path) -> None:
    page = (root / "docs/tutorial.md").read_text(encoding="utf-8")
    blocks = [
        (found[1], found[2], page.count("\n", 0, found.start()) + 2)
        for found in FENCE.finditer(page)
    ]
    names: dict[str, object] = {}
    for at, (language, text, line) in enumerate(blocks):
        if language == "text":
            assert blocks[at - 1][0] == "python", f"line {line}: output of nothing"
            continue
        assert language == "python", f"line {line}: neither code nor its output"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Blank lines before the code, so that a traceback names the page's own line.
            exec(compile("\n" * (line - 1) + text, "docs/tutorial.md", "exec"), names)
        shown = blocks[at + 1][1] if blocks[at + 1 : at + 2] and blocks[at + 1][0] == "text" else ""
        assert printed.getvalue() == shown, f"line {line}"
