"""The pages about MTN MoMo agree with the adapter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mmo_sansio.providers.mtn_momo.account import MARKETS, PRODUCTION_URL, SANDBOX_URL
from mmo_sansio.providers.mtn_momo.codes import PENDING_REASONS, REASONS
from mmo_simulators.operators.mtn.api import (
    API_KEY,
    API_USER,
    COLLECTION_KEY,
    DISBURSEMENT_KEY,
    REMITTANCE_KEY,
)

ROW = re.compile(r"^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| `([a-z_]+)` \| `([a-z_]+)` \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    pages = ("providers/mtn_momo.md", "internals/mtn_momo.md")
    return "".join((root / "docs" / each).read_text(encoding="utf-8") for each in pages)


def test_the_table_of_codes_is_the_adapters(page: str) -> None:
    rows = ROW.findall(page)
    assert {code.strip("`"): means for codes, *means in rows for code in codes.split(", ")} == {
        code: [meaning.payin, meaning.payout] for code, meaning in REASONS.items()
    }


def test_every_market_and_address_is_named(page: str) -> None:
    words = {*MARKETS, *PENDING_REASONS, PRODUCTION_URL, SANDBOX_URL}
    keys = {API_USER, API_KEY, COLLECTION_KEY, DISBURSEMENT_KEY, REMITTANCE_KEY}
    assert [each for each in words | keys if f"`{each}`" not in page] == []
