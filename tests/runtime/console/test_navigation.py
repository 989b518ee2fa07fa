"""The navigation counts what waits."""

from __future__ import annotations

from mmo_trio.console.app import NAVIGATION, format_capped_count
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import ConsoleBrowser
from tests.support.sandbox_gateway import Running

NEVER = "254700000130"


def test_a_count_is_short() -> None:
    assert [format_capped_count(each) for each in (0, 1, 99, 100)] == ["", "1", "99", "99+"]


def test_every_page_has_a_letter_of_its_own() -> None:
    letters = [each.key for entries in NAVIGATION.values() for each in entries]
    assert len(letters) == len(set(letters))


async def test_it_says_how_much_waits_and_where(
    sandbox: Running, signed_in: SignedIn, vera: ConsoleBrowser
) -> None:
    page = await vera.text("/")
    assert 'class="count"' not in page
    assert ">Audit log" not in page
    for _ in range(2):
        answer = await sandbox.merchant.create("direct/payin", msisdn=NEVER)
    await sandbox.advance("2h")
    vera, sam = (
        await signed_in("vera"),
        await signed_in("sam"),
    )  # The sessions of before have ended.
    proposed = {"outcome": "success", "reason": "a receipt", "evidence": "a statement"}
    path = f"/payments/{answer.json['gatewayReference']}/resolutions"
    assert await sam.send(path, **proposed) == 303
    page = await vera.text("/")
    assert 'Stuck <span class="count">2<' in page
    assert 'Proposals <span class="count">1<' in page
    stuck = await vera.text("/stuck")
    assert "2 h 0 min" in stuck
