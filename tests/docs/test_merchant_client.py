"""The guide of the merchant's client runs against a sandbox: each block prints what the block after
it shows."""

from __future__ import annotations

import io
import re
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.support.sandbox_gateway import serving

FENCE = re.compile(r"(<!-- not run -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_prints_what_the_page_says(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (root / "docs/merchant_client.md").read_text(encoding="utf-8")
    blocks = [
        (found[2], found[3], page.count("\n", 0, found.start(3)) + 1)
        for found in FENCE.finditer(page)
        if found[1] is None and found[2] in ("python", "text")
    ]
    assert len(blocks) > 10

    def run_page() -> None:
        names: dict[str, object] = {}
        for at, (language, text, line) in enumerate(blocks):
            if language == "text":
                assert blocks[at - 1][0] == "python", f"line {line}: output of nothing"
                continue
            printed = io.StringIO()
            names["print"] = partial(
                print, file=printed
            )  # The gateway in this process logs to the real output.
            # Blank lines before the code, so that a traceback names the page's own line.
            exec(compile("\n" * (line - 1) + text, "docs/merchant_client.md", "exec"), names)
            shown = (
                blocks[at + 1][1] if blocks[at + 1 : at + 2] and blocks[at + 1][0] == "text" else ""
            )
            assert printed.getvalue() == shown, f"line {line}"

    async def main() -> None:
        async with serving(tmp_path) as gateway:
            monkeypatch.setenv("GATEWAY", gateway.merchant.api)
            monkeypatch.setenv("API_KEY", gateway.merchant.key)
            await trio.to_thread.run_sync(run_page)

    trio.run(main)
