"""What a brand's page in the console says of its payers: what they see, and how far they come."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.testing import START, a_transaction
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Logo, PageAppearance, Stage, Transaction
from mmo_trio.console.payer_views import funnel_of
from tests.support.console_browser import ConsoleBrowser, open_store_of
from tests.support.merchant import ask
from tests.support.sandbox_gateway import Running

LOGO = Logo("image/png", b"\x89PNG\r\n\x1a\n" + bytes(20))


async def test_the_page_of_a_brand_is_shown_as_its_payers_see_it(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    async with open_store_of(sandbox.directory) as store:
        [record] = await store.admin.brands()
        look = PageAppearance("#0a6b48", LOGO, "order", "+254 700 123 456")
        await store.admin.save_brands([evolve(record.brand, appearance=look)])
    text = await vera.words("/brands/demo")
    assert "what the label order says" in text
    assert "KES 10.00 A message from Sandbox will come to" in text
    assert "no payment is made" in text
    assert "Every ending but paid leads to +254 700 123 456." in text

    sheet = await vera.get("/brands/demo/page.css")
    assert b".branded{--fill:#0a6b48" in sheet.body
    assert b":root" not in sheet.body, "the console itself keeps its colours"
    logo = await vera.get("/brands/demo/logo")
    assert (logo.headers["content-type"], logo.body) == ("image/png", LOGO.content)
    for name in ("logo", "page.css"):
        assert (await vera.get(f"/brands/nobody/{name}")).status == 404
        outside = await ask(f"{sandbox.ready.console}/brands/demo/{name}")
        assert outside.status != 200, "only for who has signed in"


async def test_the_funnel_counts_what_the_payments_say(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    page = await vera.text("/brands/demo")
    assert "None of its newest payments has a payment page" in page
    for scenario in ("success", "cancelled", None):
        made = await sandbox.merchant.accepted("web/payin", scenario=scenario)
        if scenario is not None:
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            await ask(made["pageUrl"], method="POST", headers=form, body=b"")
            await sandbox.merchant.ended(made["gatewayReference"])
    text = await vera.words("/brands/demo")
    assert "Page made 3" in text
    assert "Button pressed, sent to the operator 2 67 %" in text
    assert "Paid 1 33 %" in text
    assert "1 failed on the payer's side" in text


def _web(stage: Stage, code: ErrorCode | None = None) -> Transaction:
    sent = None if stage is Stage.AWAITING_CUSTOMER else START
    return a_transaction(stage, flow=Flow.WEB, submitted_at=sent, error_code=code)


def test_what_was_sent_and_not_paid_is_told_apart() -> None:
    funnel = funnel_of(
        [
            _web(Stage.AWAITING_CUSTOMER),
            _web(Stage.AWAITING_RESULT),
            _web(Stage.SUCCEEDED),
            _web(Stage.FAILED, ErrorCode.USER_WRONG_PIN),
            _web(Stage.FAILED, ErrorCode.PROVIDER_TIMEOUT),
            a_transaction(Stage.SUCCEEDED, flow=Flow.DIRECT),
        ]
    )
    assert funnel is not None
    assert [each.count for each in funnel.steps] == [5, 4, 1]
    assert (funnel.pending, funnel.payer, funnel.other) == (1, 1, 1)
    assert funnel_of([a_transaction(Stage.SUCCEEDED, flow=Flow.DIRECT)]) is None
