"""A payer who confirms at the operator's page, or with its code (clauses W1 to W3, S1, S6): there
and back, and what a return does not prove."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
import trio

from mmo_sansio.values.clock import MINUTE, Span
from tests.support.elsewhere_operator import HOST, ElsewhereOperator, run_elsewhere
from tests.support.merchant import TIMEOUT_S, Answer, ask
from tests.support.sandbox_gateway import Running

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def text_of(answer: Answer) -> str:
    return html.unescape(answer.body.decode())


async def press(page_url: str, **fields: str) -> Answer:
    return await ask(page_url, method="POST", headers=FORM, body=urlencode(fields).encode())


async def begin(running: Running, **members: object) -> tuple[str, str]:
    """Create a payment and press its button; its reference and its page."""
    accepted = await running.merchant.accepted("web/payin", **members)
    await press(accepted["pageUrl"])
    return accepted["gatewayReference"], accepted["pageUrl"]


async def shown(page_url: str, words: str) -> str:
    """Return the page once it says this."""
    with trio.fail_after(TIMEOUT_S):
        while True:
            page = text_of(await ask(page_url))
            if words in page:
                return page
            await trio.sleep(0.02)


async def asked(operator: ElsewhereOperator, times: int) -> None:
    """Wait until the operator was asked so often."""
    with trio.fail_after(TIMEOUT_S):
        while len(operator.questions) < times:  # noqa: ASYNC110
            await trio.sleep(0.02)
    assert len(operator.questions) == times


@pytest.fixture
def operator() -> ElsewhereOperator:
    return ElsewhereOperator()


@pytest.fixture
async def running(tmp_path: Path, operator: ElsewhereOperator) -> AsyncIterator[Running]:
    async with run_elsewhere(tmp_path, operator) as serving:
        yield serving


@pytest.mark.spec("W1", "W2", "W3", "S1")
async def test_a_payer_goes_to_the_operators_page_and_comes_back(
    running: Running, operator: ElsewhereOperator
) -> None:
    redirect = "https://shop.example/thanks"
    accepted = await running.merchant.accepted("web/payin", successRedirectUrl=redirect)
    reference, page_url = accepted["gatewayReference"], accepted["pageUrl"]
    first = text_of(await ask(page_url))
    assert 'You confirm with <strong class="sum">Lipa</strong>, for' in first
    assert "A message from" not in first
    await press(page_url)

    page = await shown(page_url, "come back to this page")
    assert f'<a class="button wide" href="https://{HOST}/c/{reference}" rel="noreferrer">' in page
    assert f"The button opens {HOST}." in page
    assert "<button" not in page
    assert (await running.merchant.status(reference))["status"] == "pending"

    back = operator.returns[reference]
    token = urlsplit(page_url).path.rpartition("/")[2]
    assert token not in back
    returned = await ask(back)
    assert returned.status == 303
    assert returned.headers["referrer-policy"] == "no-referrer"
    waiting = text_of(await ask(f"{running.ready.pages}{returned.headers['location']}"))
    assert "Lipa is being asked about the payment" in waiting
    assert f'href="https://{HOST}/c/{reference}"' in waiting, "who has not paid yet goes again"

    operator.approved.add(reference)
    await running.advance("3s")
    await ask(back)
    await running.advance("3s")
    await running.merchant.ended(reference)
    for each in (page_url, f"{running.ready.pages}{returned.headers['location']}"):
        assert (await ask(each)).headers["location"] == redirect


@pytest.mark.spec("W2", "W3")
async def test_a_payer_comes_back_to_the_language_that_was_chosen(
    running: Running, operator: ElsewhereOperator
) -> None:
    accepted = await running.merchant.accepted("web/payin")
    plain = await ask(accepted["pageUrl"])
    assert "set-cookie" not in plain.headers, "no language was chosen"
    pressed = await press(f"{accepted['pageUrl']}?lang=fr")
    cookie = pressed.headers["set-cookie"]
    assert cookie.startswith("lang=fr; ")
    assert {"Path=/pay", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
    await shown(f"{accepted['pageUrl']}?lang=fr", f"https://{HOST}/c/")

    back = operator.returns[accepted["gatewayReference"]]
    assert "fr" not in urlsplit(back).query
    browser = {"Accept-Language": "en", "Cookie": cookie.partition(";")[0]}
    returned = await ask(back, headers=browser)
    page = f"{running.ready.pages}{returned.headers['location']}"
    assert '<html lang="fr"' in text_of(await ask(page, headers={"Accept-Language": "en"}))
    chosen_anew = text_of(await ask(page.replace("lang=fr", "lang=sw"), headers=browser))
    assert '<html lang="sw"' in chosen_anew


@pytest.mark.spec("W2", "S6")
async def test_a_return_proves_nothing_and_causes_a_question(
    running: Running, operator: ElsewhereOperator
) -> None:
    reference, page_url = await begin(running)
    await shown(page_url, "come back to this page")
    assert operator.questions == []
    for query in ("?status=success", "?status=failure&paymentID=1", ""):
        await ask(operator.returns[reference] + query)
    await ask(operator.returns[reference], method="POST", headers=FORM, body=b"status=success")
    await asked(operator, 1)
    assert (await running.merchant.status(reference))["status"] == "pending"
    await running.advance("3s")
    await ask(operator.returns[reference])
    await asked(operator, 2)
    assert operator.commits == []
    assert (await running.merchant.status(reference))["status"] == "pending"


@pytest.mark.spec("W2", "W3")
async def test_a_forged_return_and_one_with_another_payments_key_change_nothing(
    running: Running, operator: ElsewhereOperator
) -> None:
    (first, page), (second, other_page) = await begin(running), await begin(running)
    for each in (page, other_page):
        await shown(each, "come back to this page")
    base = f"{running.ready.pages}/pay"
    token = urlsplit(page).path.rpartition("/")[2]
    proofs = {
        each: urlsplit(operator.returns[each]).path.split("/")[2].partition(".")[2]
        for each in (first, second)
    }
    for key in (
        f"{first}.{proofs[second]}",
        f"{first}.{'0' * len(proofs[first])}",
        f"{first}.",
        f".{proofs[first]}",
        f"{token}.{proofs[first]}",
        token,
        "guessed",
        first,
    ):
        assert (await ask(f"{base}/{key}/back")).status == 404
    await running.advance("3s")
    assert operator.questions == []
    for each in (first, second):
        assert (await running.merchant.status(each))["status"] == "pending"


@pytest.mark.spec("W1", "W3")
async def test_the_address_of_a_return_presses_no_button(
    tmp_path: Path, operator: ElsewhereOperator
) -> None:
    async with run_elsewhere(tmp_path, operator) as running:
        reference, page_url = await begin(running)
        await shown(page_url, "come back to this page")
        key_url = operator.returns[reference].removesuffix("/back")
        assert (await press(key_url)).status == 404
        assert (await press(key_url, code="123456")).status == 404
        page = text_of(await ask(key_url))
        assert "<form" not in page
        token = urlsplit(page_url).path.rpartition("/")[2]
        assert token not in page


@pytest.mark.spec("W2")
async def test_without_a_return_the_polls_find_the_result(
    running: Running, operator: ElsewhereOperator
) -> None:
    reference, page_url = await begin(running)
    await shown(page_url, "come back to this page")
    operator.approved.add(reference)
    await running.advance("61m")
    ended = await running.merchant.ended(reference)
    assert ended["status"] == "success"


@pytest.mark.spec("W2")
async def test_who_comes_back_after_the_end_sees_the_result_and_causes_no_question(
    running: Running, operator: ElsewhereOperator
) -> None:
    reference, page_url = await begin(running)
    await shown(page_url, "come back to this page")
    operator.refused.add(reference)
    await ask(operator.returns[reference])
    await running.merchant.ended(reference)
    questions = len(operator.questions)
    for _ in range(3):
        back = await ask(operator.returns[reference])
        page = text_of(await ask(f"{running.ready.pages}{back.headers['location']}"))
        assert "You cancelled the payment" in page
    await running.advance("10s")
    assert len(operator.questions) == questions


@pytest.mark.spec("W1")
async def test_the_page_does_not_lead_there_once_the_operators_time_is_over(tmp_path: Path) -> None:
    async with run_elsewhere(tmp_path, ElsewhereOperator(lasts=Span(10 * MINUTE))) as running:
        _, page_url = await begin(running)
        await shown(page_url, f'href="https://{HOST}')
        await running.advance("10m")
        assert HOST not in text_of(await ask(page_url))


LANGUAGES = {
    "en": ("Type the code that Lipa gives you", ("Dial *144*4*6#.", "Choose 1."), "ltr"),
    "fr": ("Saisissez le code que Lipa vous donne", ("Composez le *144*4*6#.",), "ltr"),
    "ar": ("اكتب الرمز الذي يعطيك إياه Lipa", ("Dial *144*4*6#.", "Choose 1."), "rtl"),
}
"""What the page says, with the operator's own words in the payer's language, or in English."""


@pytest.mark.spec("W1", "S6")
async def test_the_page_asks_for_a_code_before_anything_is_sent(tmp_path: Path) -> None:
    operator = ElsewhereOperator(needs_code=True)
    async with run_elsewhere(tmp_path, operator) as running:
        reference, page_url = await begin(running)
        await shown(page_url, 'name="code"')
        for language, (sentence, words, direction) in LANGUAGES.items():
            page = text_of(await ask(f"{page_url}?lang={language}"))
            assert sentence in page
            assert all(f'<p dir="auto">{line}</p>' in page for line in words)
            assert f'dir="{direction}"' in page
        assert operator.codes == {}
        assert (await running.merchant.status(reference))["status"] == "pending"

        for useless in ("", "   ", "x" * 37, "é"):
            told = await press(page_url, code=useless)
            assert "That can't be a code" in text_of(
                await ask(f"{running.ready.pages}{told.headers['location']}")
            )
        await press(page_url)
        assert operator.codes == {}

        operator.approved.add(reference)
        for typed in (" ١٢٣ 456 ", "999999"):
            assert (await press(page_url, code=typed)).status == 303
        assert (await running.merchant.ended(reference))["status"] == "success"
        assert operator.codes == {reference: "123456"}


@pytest.mark.spec("W1", "S6")
async def test_a_code_that_is_asked_for_afterwards_is_told_and_asked_for_again_if_it_is_wrong(
    tmp_path: Path,
) -> None:
    operator = ElsewhereOperator(asks_later=True)
    async with run_elsewhere(tmp_path, operator) as running:
        reference, page_url = await begin(running)
        await shown(page_url, 'name="code"')
        assert operator.codes == {reference: None}, "it has the payment"
        await press(page_url, code="000000")
        with trio.fail_after(TIMEOUT_S):
            while operator.commits != [reference]:  # noqa: ASYNC110
                await trio.sleep(0.02)
        await shown(page_url, 'name="code"')
        assert (await running.merchant.status(reference))["status"] == "pending"
        await press(page_url, code="123456")
        assert (await running.merchant.ended(reference))["status"] == "success"


@pytest.mark.spec("W1")
async def test_an_operator_without_words_has_the_pages_own(tmp_path: Path) -> None:
    operator = ElsewhereOperator(needs_code=True, instructions=())
    async with run_elsewhere(tmp_path, operator) as running:
        _, page_url = await begin(running)
        await shown(page_url, "Ask for the code in the menu or in the app of Lipa.")


@pytest.mark.spec("W1", "E1")
async def test_a_payment_without_its_code_ends_with_its_page(tmp_path: Path) -> None:
    async with run_elsewhere(tmp_path, ElsewhereOperator(needs_code=True)) as running:
        reference, page_url = await begin(running)
        await shown(page_url, 'name="code"')
        await running.advance("31m")
        ended = await running.merchant.ended(reference)
        assert (ended["status"], ended["errorCode"]) == ("failed", "user_timeout")
        assert 'name="code"' not in text_of(await ask(page_url))


@pytest.mark.spec("W3")
async def test_instructions_of_an_operator_are_text_and_nothing_else(tmp_path: Path) -> None:
    words = (("en", '<script src="//evil.example"></script>{provider}'),)
    operator = ElsewhereOperator(needs_code=True, instructions=words)
    async with run_elsewhere(tmp_path, operator) as running:
        _, page_url = await begin(running)
        await shown(page_url, 'name="code"')
        page = (await ask(page_url)).body.decode()
        assert "evil.example" in page
        assert not re.search(r"<script[^>]*evil", page)
