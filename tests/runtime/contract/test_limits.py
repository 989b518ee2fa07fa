"""The specification's table of limits: each is a named constant or a setting, with that default
(clause V1)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mmo_sansio.api.incoming import creation_body
from mmo_sansio.http import egress_rules, exchange
from mmo_sansio.messages import queries
from mmo_sansio.values import clock
from mmo_trio.settings import load_settings
from tests.support.sandbox_gateway import Serve

SETTINGS = load_settings()

NAMED: Mapping[str, tuple[object, object]] = {
    "pending transaction timeout": (SETTINGS.limits.pending_timeout, 3 * clock.DAY),
    "callback timeout": (SETTINGS.limits.callback_timeout, 15 * clock.SECOND),
    "callback response body logged": (exchange.RESPONSE_BODY_BYTES_MAX, 1024 * 1024),
    "breaker window": (SETTINGS.breaker.window, 60 * clock.SECOND),
    "breaker minimum requests": (SETTINGS.breaker.minimum_requests, 5),
    "breaker failure ratio": (SETTINGS.breaker.failure_ratio, 0.5),
    "breaker stays open": (SETTINGS.breaker.open_for, 30 * clock.SECOND),
    "idempotency tracking window": (SETTINGS.limits.idempotency_window, 15 * clock.MINUTE),
    "API key cache": (SETTINGS.limits.api_key_cache, clock.MINUTE),
    "records pageSize, most": (queries.RECORDS_PAGE_MAX, 5000),
    "records pageSize, default": (queries.RECORDS_PAGE_DEFAULT, 50),
    "labels": (creation_body.LABELS_MAX, 10),
    "method path segment": (creation_body.METHOD_MAX, 100),
    "references, id and names": (creation_body.TEXT_MAX, 255),
    "email": (creation_body.EMAIL_MAX, 320),
    "msisdn, least": (creation_body.MSISDN_MIN, 3),
    "msisdn, most": (creation_body.MSISDN_MAX, 20),
    "country": (creation_body.COUNTRY_MAX, 10),
    "URLs": (egress_rules.URL_LENGTH_MAX, 2048),
    "page session": (SETTINGS.limits.page_session, 30 * clock.MINUTE),
}


@pytest.mark.spec("V1")
@pytest.mark.parametrize(("value", "expected"), NAMED.values(), ids=NAMED.keys())
def test_a_limit_has_a_name_and_the_specifications_value(value: object, expected: object) -> None:
    assert value == expected


@pytest.mark.spec("V1")
def test_the_times_of_a_connection_are_settings() -> None:
    names = ("handshake", "idle", "head", "body", "write", "drain")
    environment = {
        f"MMO_LIMITS_{name.upper()}_TIMEOUT": f"{seconds}s"
        for seconds, name in enumerate(names, 11)
    }
    limits = load_settings(environment=environment).limits.listener_limits
    assert [getattr(limits, f"{name}_timeout_s") for name in names] == [11, 12, 13, 14, 15, 16]


@pytest.mark.spec("V1", "S3", "C12")
async def test_settings_change_the_limits_that_are_settings(serve: Serve) -> None:
    environment = {"MMO_LIMITS_PENDING_TIMEOUT": "2h", "MMO_LIMITS_IDEMPOTENCY_WINDOW": "1m"}
    async with serve(environment=environment) as sandbox:
        first = await sandbox.merchant.accepted(merchantReference="again", scenario="cancelled")
        await sandbox.merchant.ended(first["gatewayReference"])
        again = await sandbox.merchant.create(merchantReference="again", scenario="never")
        assert again.status == 422
        await sandbox.advance("1m")
        second = await sandbox.merchant.accepted(merchantReference="again", scenario="never")
        await sandbox.advance("2h")
        expired = await sandbox.merchant.status(second["gatewayReference"])
        assert expired["errorCode"] == "transaction_expired"
