"""A request costs at most three times what a harmless one of its length costs, from the bytes of
the socket to what it asks for."""

from __future__ import annotations

import pytest

from mmo_sansio.api.incoming.query_string import RecordsRequest
from mmo_sansio.messages.inputs import CreatePayment
from tests.runtime.parsing.corpus import Case, cases, in_chunks, posted
from tests.support import hostile_input
from tests.support.hostile_input import BODY_BYTES, HEAD_BYTES, chunked
from tests.support.parsing_cost import COST_MAX, measure
from tests.support.request_parsing import parse_request


def test_the_harmless_requests_are_parsed_whole() -> None:
    heads = hostile_input.heads(HEAD_BYTES)
    assert HEAD_BYTES - 500 < len(heads["harmless"]) <= HEAD_BYTES
    assert isinstance(parse_request([heads["harmless"]]), RecordsRequest)
    body = hostile_input.creation_bodies(BODY_BYTES)["harmless"]
    assert isinstance(parse_request(posted(body)), CreatePayment)
    assert isinstance(
        parse_request(in_chunks(chunked(0, bytes_each=256, content=body))), CreatePayment
    )


@pytest.mark.long
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_no_request_costs_three_times_what_a_harmless_one_does(case: Case) -> None:
    cost = measure(parse_request, case.hostile, case.harmless)
    assert cost.ratio <= COST_MAX, cost
