"""Wherever the pages promise that nothing is paid twice, they say for how long, and what to do
afterwards (clause C12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_sansio.api.docs.error_pages import GUIDANCE
from mmo_sansio.api.docs.openapi import INTRODUCTION
from mmo_sansio.api.docs.schemas import request_name, request_schemas
from mmo_sansio.values import problems
from mmo_sansio.values.model import Operation


@pytest.mark.spec("C12")
def test_every_promise_names_the_window_and_the_look_up(root: Path) -> None:
    references = [
        request_schemas()[request_name(each)]["properties"]["merchantReference"]
        for each in Operation
    ]
    promises = {
        "the introduction of /docs": INTRODUCTION,
        "the page of merchant_transactionid_duplicate": GUIDANCE[
            problems.DUPLICATE_REFERENCE
        ].advice,
        "docs/get_started.md": (root / "docs/get_started.md").read_text(encoding="utf-8"),
        "docs/api.md, overview": (root / "docs/api.md")
        .read_text(encoding="utf-8")
        .partition("## Repeat")[0],
        "docs/api.md, table": (root / "docs/api.md")
        .read_text(encoding="utf-8")
        .partition("| You got |")[2],
        **{
            f"merchantReference {number}": each["description"]
            for number, each in enumerate(references)
        },
    }
    for place, text in promises.items():
        words = " ".join(text.replace("\n", " ").split()).lower()
        assert "within 15 minutes" in words, place
        assert "look the reference up first" in words or "look its reference up before" in words, (
            place
        )
