"""Listing transactions, page by page (clauses R1 to R7)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
import trio

from mmo_sansio.messages.queries import RECORDS_BYTES_MAX
from tests.support.merchant import Answer, Merchant
from tests.support.merchants import ACME, ACME_KEY, ZENITH, ZENITH_KEY, deposited, developer
from tests.support.rejections import assert_field_refused
from tests.support.sandbox_gateway import Running, Serve

ALWAYS = {"begin": "2026-01-01", "to": "2100-01-01"}


async def _made(merchant: Merchant, count: int, **changes: Any) -> list[str]:
    """That many payments that stay pending, in the order of their creation."""
    return [
        (await merchant.accepted(scenario="never", **changes))["gatewayReference"]
        for _ in range(count)
    ]


def _references(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["gatewayReference"] for each in answer.json["data"]]


async def _walked(merchant: Merchant, first: Answer, way: str = "next") -> list[list[str]]:
    """The pages from this one to the end, or back to the beginning."""
    pages = [_references(first)]
    answer = first
    while (cursor := answer.json["pages"][way]) is not None:
        answer = await merchant.records(page=cursor)
        pages.append(_references(answer))
    return pages


@pytest.mark.spec("R1", "R2", "R3", "R4", "R5")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        pytest.param("to=2026-12-31", "from", id="missing"),
        pytest.param("from=yesterday&to=2026-12-31", "from", id="no time"),
        pytest.param("from=2026-01-02&to=2026-01-01", "to", id="before from"),
        pytest.param("from=2026-01-01&from=2026-01-01&to=2026-12-31", "from", id="repeated"),
        pytest.param("from=2026-01-01&to=2026-12-31&type=push", "type", id="unknown type"),
        pytest.param("from=2026-01-01&to=2026-12-31&pageSize=1.0", "pageSize", id="no integer"),
        pytest.param("page=%E2%9C%93", "page", id="no cursor"),
    ],
)
async def test_what_cannot_be_asked_names_its_parameter(
    sandbox: Running, query: str, field: str
) -> None:
    assert_field_refused(await sandbox.merchant.get(f"records?{query}"), field)


@pytest.mark.spec("R1")
async def test_from_belongs_to_the_window_and_to_does_not(sandbox: Running) -> None:
    (reference,) = await _made(sandbox.merchant, 1)
    at = (await sandbox.merchant.status(reference))["createdAt"]
    after = (datetime.fromisoformat(at) + timedelta(microseconds=1)).isoformat()
    assert _references(await sandbox.merchant.records(begin=at, to=after)) == [reference]
    assert _references(await sandbox.merchant.records(begin="2026-01-01", to=at)) == []


@pytest.mark.spec("R1")
async def test_without_an_offset_it_is_utc_and_a_plus_may_arrive_as_a_space(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    (reference,) = await _made(merchant, 1)
    at = (await merchant.status(reference))["createdAt"]
    plus = at[:-1] + "+00:00"
    for begin in (at[:-1], plus):
        assert _references(await merchant.records(begin=begin, to="2100-01-01")) == [reference]
    unescaped = await merchant.get(f"records?from={plus}&to=2100-01-01")
    assert _references(unescaped) == [reference]


@pytest.mark.spec("R1")
async def test_the_order_is_that_of_creation_and_no_window_is_too_wide(sandbox: Running) -> None:
    references = await _made(sandbox.merchant, 5)
    answer = await sandbox.merchant.records(begin="0001-01-01", to="9999-12-31")
    assert _references(answer) == references
    created = [each["createdAt"] for each in answer.json["data"]]
    assert created == sorted(created)


@pytest.mark.spec("R3")
async def test_the_filters_choose_by_type_status_and_method(sandbox: Running) -> None:
    merchant = sandbox.merchant
    payin = (await merchant.accepted())["gatewayReference"]
    payout = (await merchant.accepted("direct/payout", scenario="cancelled"))["gatewayReference"]
    tax = (await merchant.accepted("direct/taxpayout", scenario="never"))["gatewayReference"]
    push = await deposited(sandbox)
    for reference in (payin, payout):
        await merchant.ended(reference)

    for query, expected in (
        ({"type": " PayIn "}, [payin, push]),
        ({"type": "tax"}, [tax]),
        ({"status": "FAILED"}, [payout]),
        ({"status": "pending"}, [tax]),
        ({"type": "payin", "status": "failed"}, []),
        ({"method": "mpesa_ke"}, [payin, payout, tax, push]),
        ({"method": "MPESA_KE"}, []),
        ({"type": " ", "status": "", "method": "", "colour": "blue"}, [payin, payout, tax, push]),
    ):
        assert _references(await merchant.records(**ALWAYS, **query)) == expected, query


@pytest.mark.spec("R4")
async def test_page_size_is_50_unless_said_otherwise_and_clamped(sandbox: Running) -> None:
    merchant = sandbox.merchant
    async with trio.open_nursery() as nursery:
        for _ in range(51):
            nursery.start_soon(lambda: merchant.accepted("web/payin"))
    assert len(_references(await merchant.records(**ALWAYS))) == 50
    for size, count in (("0", 1), ("2", 2), ("9" * 99, 51)):
        assert len(_references(await merchant.records(**ALWAYS, pageSize=size))) == count, size


@pytest.mark.spec("R5", "R6")
async def test_walking_both_ways_with_filters_gives_every_row_and_the_same_pages(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    wanted = []
    for _ in range(7):
        wanted += await _made(merchant, 1)
        await merchant.accepted("direct/payout", scenario="never")
    query = ALWAYS | {"type": "PAYIN", "status": "pending", "method": "mpesa_ke", "pageSize": "3"}
    first = await merchant.records(**query)
    assert first.json["pages"]["previous"] is None
    pages = await _walked(merchant, first)
    assert pages == [wanted[:3], wanted[3:6], wanted[6:]]

    last = await merchant.records(page=first.json["pages"]["next"])
    last = await merchant.records(page=last.json["pages"]["next"])
    assert last.json["pages"]["next"] is None
    assert await _walked(merchant, last, "previous") == pages[::-1]


@pytest.mark.spec("R6")
async def test_a_page_that_was_emptied_meanwhile_leads_back_to_where_it_was_reached_from(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    ending = ["slow", "slow", "never", "never", "slow", "slow"]
    made = [(await merchant.accepted(scenario=each))["gatewayReference"] for each in ending]
    first = await merchant.records(**ALWAYS, status="pending", pageSize=2)
    second = await merchant.records(page=first.json["pages"]["next"])
    for each in (*made[:2], *made[4:]):
        await sandbox.advance("10s")
        assert (await merchant.ended(each))["status"] == "success"

    for way, back in (("previous", "next"), ("next", "previous")):
        emptied = await merchant.records(page=second.json["pages"][way])
        assert (emptied.json["data"], emptied.json["pages"][way]) == ([], None)
        assert _references(await merchant.records(page=emptied.json["pages"][back])) == made[2:4]


@pytest.mark.spec("R5")
async def test_filters_that_are_resent_must_equal_the_original(sandbox: Running) -> None:
    merchant = sandbox.merchant
    await _made(merchant, 3)
    query = {"from": "2026-01-01", "to": "2100-01-01", "status": "pending", "pageSize": "1"}
    page = (await merchant.records(**query)).json["pages"]["next"]

    same = query | {"from": "2026-01-01T00:00:00Z", "status": " PENDING ", "type": ""}
    assert (await merchant.records(page=page, **same)).status == 200
    changed = await merchant.records(page=page, status="success", method="mpesa_ke")
    assert_field_refused(changed, "method", "status")


@pytest.mark.spec("R5")
async def test_a_cursor_that_was_altered_is_refused(sandbox: Running) -> None:
    await _made(sandbox.merchant, 2)
    page = (await sandbox.merchant.records(**ALWAYS, pageSize=1)).json["pages"]["next"]
    middle = len(page) // 2
    flipped = page[:middle] + ("A" if page[middle] != "A" else "B") + page[middle + 1 :]
    assert_field_refused(await sandbox.merchant.records(page=flipped), "page")


@pytest.mark.spec("R1", "R5")
async def test_another_brand_sees_no_row_and_can_do_nothing_with_a_cursor(serve: Serve) -> None:
    async with serve(brands=ACME + ZENITH) as sandbox:
        acme, zenith = developer(sandbox, ACME_KEY), developer(sandbox, ZENITH_KEY)
        references = await _made(acme, 2)
        page = (await acme.records(**ALWAYS, pageSize=1)).json["pages"]["next"]
        assert _references(await acme.records(page=page)) == references[1:]
        assert_field_refused(await zenith.records(page=page), "page")
        assert _references(await zenith.records(**ALWAYS)) == []


@pytest.mark.spec("R5")
async def test_cursors_survive_time_and_a_restart_of_the_gateway(serve: Serve) -> None:
    async with serve() as sandbox:
        references = await _made(sandbox.merchant, 4)
        first = await sandbox.merchant.records(**ALWAYS, pageSize=2)
        await sandbox.advance("5d")
    async with serve() as sandbox:
        second = await sandbox.merchant.records(page=first.json["pages"]["next"])
        assert _references(second) == references[2:]
        back = await sandbox.merchant.records(page=second.json["pages"]["previous"])
        assert _references(back) == references[:2]


@pytest.mark.spec("R7")
async def test_a_transaction_is_listed_by_the_first_call_after_its_answer(sandbox: Running) -> None:
    merchant = sandbox.merchant
    missed = []

    async def create_and_list() -> None:
        for _ in range(5):
            reference = (await merchant.accepted())["gatewayReference"]
            answer = await merchant.records(**ALWAYS, pageSize=5000)
            if reference not in _references(answer):
                missed.append(reference)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(create_and_list)
    assert missed == []


@pytest.mark.spec("R7")
async def test_a_window_in_the_past_gives_each_exactly_once_whatever_is_being_written(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    references = await _made(merchant, 9)
    slow = (await merchant.accepted(scenario="slow"))["gatewayReference"]
    await sandbox.advance("1s")
    end = (await sandbox.control("clock", advance="1ms")).json["now"]
    walks: list[list[str]] = []

    async def create_for_ever() -> None:
        while True:
            await merchant.accepted("web/payin")

    async def walk() -> None:
        first = await merchant.records(begin="2026-01-01", to=end, pageSize=3)
        pages = await _walked(merchant, first)
        walks.append([reference for page in pages for reference in page])

    async with trio.open_nursery() as writers:
        for _ in range(4):
            writers.start_soon(create_for_ever)
        async with trio.open_nursery() as readers:
            for _ in range(4):
                readers.start_soon(walk)
            await sandbox.advance("10s")  # The slow one succeeds meanwhile.
        writers.cancel_scope.cancel()
    assert walks == [[*references, slow]] * 4


@pytest.mark.spec("R7")
async def test_with_a_status_filter_each_is_given_at_most_once(sandbox: Running) -> None:
    merchant = sandbox.merchant
    slow = [
        (await merchant.accepted(scenario="slow"))["gatewayReference"],
        (await merchant.accepted(scenario="slow"))["gatewayReference"],
    ]
    never = await _made(merchant, 3)
    first = await merchant.records(**ALWAYS, status="pending", pageSize=1)
    assert _references(first) == slow[:1]
    await sandbox.advance("10s")
    pages = await _walked(merchant, first)
    walked = [reference for page in pages for reference in page]
    assert walked == [slow[0], *never]


@pytest.mark.spec("R4", "R6")
async def test_a_page_of_the_largest_payments_ends_early_and_the_walk_has_no_gap(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    labels = {f"label-{number}": "\N{GRINNING FACE}" * 1_000 for number in range(10)}
    body = merchant.body(labels=labels)
    references: list[str] = []

    async def create(number: int) -> None:
        body_of_this = json.dumps(
            body | {"merchantReference": f"large-{number}"}, ensure_ascii=False, default=float
        )
        answer = await merchant.post("direct/payin", body_of_this.encode())
        assert answer.status == 200, answer.body
        references.append(answer.json["gatewayReference"])

    async with trio.open_nursery() as nursery:
        for number in range(250):
            nursery.start_soon(create, number)
    pages = [await merchant.records(**ALWAYS, pageSize=5000)]
    while (cursor := pages[-1].json["pages"]["next"]) is not None:
        pages.append(await merchant.records(page=cursor))
    walked = [reference for page in pages for reference in _references(page)]
    assert sorted(walked) == sorted(references)
    assert len(set(walked)) == 250
    assert len(pages) == 2
    assert max(len(page.body) for page in pages) < RECORDS_BYTES_MAX + 2_000
    assert len(pages[0].body) > RECORDS_BYTES_MAX * 0.9, "as large as it may be"
    back = await merchant.records(page=pages[-1].json["pages"]["previous"])
    assert _references(back) == _references(pages[0])[-len(_references(back)) :]
