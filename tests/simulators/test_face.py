"""Every export of the face can be imported, and the example of its guide runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mmo_simulators

PAGE = Path(__file__).parents[2] / "docs/internals/operators.md"


@pytest.mark.parametrize("name", mmo_simulators.__all__)
def test_every_export_is_reachable(name: str) -> None:
    assert getattr(mmo_simulators, name) is not None


def test_the_example_of_the_guide_serves_an_operator() -> None:
    [example] = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    )
    origin, payments = done.stdout.splitlines()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", origin)
    assert payments == "[]"
