"""The page on proxies shows the configuration files that are shipped and tested."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["nginx.conf", "haproxy.cfg"])
def test_the_page_shows_the_shipped_file(root: Path, name: str) -> None:
    page = (root / "docs/proxies.md").read_text(encoding="utf-8")
    shown = (
        page.partition(f"`deploy/proxies/{name}`:\n")[2].partition("```\n")[0].partition("\n```")[2]
    )
    assert shown.partition("\n")[2] == (root / "deploy/proxies" / name).read_text(encoding="utf-8")
