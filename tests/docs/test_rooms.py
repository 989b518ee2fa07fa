"""The way of a payment through the rooms is drawn as it is traced."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_rooms_are_drawn_as_a_payment_enters_them() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_rooms.py"))
    drawn = made["PICTURE"].read_text(encoding="utf-8")
    assert drawn == made["picture"](made["trace"]()), (
        "run: PYTHONPATH=.:src python docs/make_rooms.py"
    )
