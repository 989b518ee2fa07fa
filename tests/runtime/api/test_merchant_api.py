"""What the merchant API tells the engine of a request (C12)."""

from __future__ import annotations

import json
from typing import Any, cast
from unittest.mock import Mock

import pytest

from mmo_sansio.api.incoming.requests import CreateRoute
from mmo_sansio.http.messages import RequestHead
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.replies import Rejected, Reply
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, MonotonicInstant, Span, later
from mmo_sansio.values.model import Operation, Terms
from mmo_sansio.values.problems import MALFORMED
from mmo_trio.api.authentication import Authenticator, VerifiedKey
from mmo_trio.api.merchant_api import MerchantApi
from mmo_trio.engine.engine import Sender
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.storage.interface.admin_types import KeyOwner
from mmo_trio.system.ids import PageTokenGenerator, ReferenceGenerator
from tests.runtime.engine.test_engine import MachineClock
from tests.support.api_requests import BRAND, SETTINGS, body

NEVER = MonotonicInstant(2**63)


@pytest.mark.spec("C12")
async def test_a_creation_is_as_old_as_its_head_however_late_its_body_comes() -> None:
    machine, received = MachineClock(), list[MonotonicInstant]()

    async def create(input_: CreatePayment, sender: Sender) -> Reply:
        received.append(sender.asked_at)
        return Rejected(MALFORMED.problem("not of interest"))

    authenticator = Authenticator(Mock(), Mock(), monotonic=machine.monotonic)
    api = MerchantApi(
        settings=SETTINGS,
        terms=Terms(),
        body_limit=100_000,
        store=cast(Any, None),
        create=create,
        authenticator=authenticator,
        request_rates=cast(Any, None),
        references=ReferenceGenerator(lambda: Instant(0)),
        page_tokens=PageTokenGenerator(lambda: Instant(0)),
        clock=machine,
        served_windows=cast(Any, None),
        note_refusal=lambda input_, problem: None,
        is_restored=lambda brand: False,
        method_states=cast(Any, None),
    )
    head = RequestHead(
        "POST", b"/", ((b"x-api-key", b"key"), (b"content-type", b"application/json"))
    )
    owner = VerifiedKey(KeyOwner(BRAND, "1"), NEVER, 0)
    authenticator.known_senders.add(head.headers, "", owner)
    read_at = machine.booted = later(machine.booted, clock.HOUR)
    admitted = await api.admit(
        CreateRoute(Operation.DIRECT_PAYIN, "mpesa_ke"), head, RequestContext("1", "", True)
    )
    assert isinstance(admitted, Admitted)
    machine.booted = later(machine.booted, Span(9 * clock.SECOND))
    await admitted.respond(json.dumps(body()).encode())
    assert received == [read_at]
