"""The console masks data, checks permissions, and draws charts."""

from __future__ import annotations

import pytest

from mmo_sansio.values.clock import HOUR, SECOND, Instant, Span
from mmo_sansio.values.model import Status
from mmo_trio.admin.auditing import audit_event
from mmo_trio.admin.timeline import HIDDEN_TEXT
from mmo_trio.console.overview import (
    build_charts,
    format_latency,
    format_rate,
    statistics_by_key,
    statistics_over_time,
)
from mmo_trio.console.parameters import parse_phone_number
from mmo_trio.console.passwords import UnusablePassword, hash_password, verify_password
from mmo_trio.console.permissions import PERMISSIONS, Permission, PersonalDataMask, is_permitted
from mmo_trio.storage.interface.admin_types import PaymentCount, Role
from mmo_trio.storage.sql.net_effect import latency_class
from mmo_trio.system.display_text import mask_text
from tests.support.password_hasher import CHEAP_HASHER

TABLE = [
    (Role.VIEWER, ""),
    (Role.SUPPORT, "SEE_PERSONAL_DATA CLOSE_SUSPENSE PROPOSE"),
    (Role.APPROVER, "SEE_PERSONAL_DATA CLOSE_SUSPENSE PROPOSE APPROVE CHANGE_CONFIGURATION"),
    (
        Role.ADMIN,
        "SEE_PERSONAL_DATA CLOSE_SUSPENSE PROPOSE APPROVE CHANGE_CONFIGURATION SWITCH_PROVIDERS "
        "READ_AUDIT",
    ),
]


@pytest.mark.parametrize(("role", "allowed"), TABLE)
def test_each_role_may_exactly_this(role: Role, allowed: str) -> None:
    names = set(allowed.split())
    assert {each.name for each in Permission if is_permitted(role, each)} == names
    assert set(PERMISSIONS) == set(Role)


def test_personal_data_is_masked_for_users_who_may_not_see_it() -> None:
    masked, plain = (
        PersonalDataMask(can_see_personal_data=False),
        PersonalDataMask(can_see_personal_data=True),
    )
    assert masked.number("254700000007") == "•••••••••007"
    assert masked.number("123") == "•••"
    assert masked.name("Zoë") == "Z•••"
    assert masked.name(None) is None
    assert masked.free_text("any words") == HIDDEN_TEXT
    assert masked.free_text(None) is None
    assert masked.url("https://m.example/r?customer=7") == "https://m.example/r?…"
    assert masked.text("call +254700000007 or a@b.example") == "call ••••••••••007 or •••@•••"
    assert mask_text("HTTP 200 after 12345 ms") == "HTTP 200 after 12345 ms"
    for shown in (plain.number("254700000007"), plain.free_text("254700000007")):
        assert shown == "254700000007"


@pytest.mark.parametrize(
    ("typed", "digits"),
    [
        ("254700000007", "254700000007"),
        ("+254 700-000 007", "254700000007"),
        ("00254700000007", "254700000007"),
        ("order-7", None),
        ("01M7ZENK6RQE9785N9NXMWJBVQ", None),
        ("", None),
    ],
)
def test_a_number_is_known_however_it_is_written(typed: str, digits: str | None) -> None:
    assert parse_phone_number(typed) == digits


def test_a_password_is_kept_as_a_hash_that_only_it_fits() -> None:
    password_hash = hash_password(CHEAP_HASHER, "zwölf Zeichen sind genug")
    assert password_hash.startswith("$argon2id$")
    assert verify_password(CHEAP_HASHER, "zwo\u0308lf Zeichen sind genug", password_hash)
    assert not verify_password(CHEAP_HASHER, "zwolf Zeichen sind genug", password_hash)
    assert not verify_password(CHEAP_HASHER, "x" * 10_000, None)
    assert not verify_password(CHEAP_HASHER, "anything", "no hash")
    for unusable in ("short", "x" * 257):
        with pytest.raises(UnusablePassword):
            hash_password(CHEAP_HASHER, unusable)


def test_names_in_an_audit_event_become_plain_text() -> None:
    event = audit_event(
        Instant(1), "cli:a\x00\ud800\n", "looked", "brand:\x1b[2J", note="\ud800", nothing=None
    )
    assert (event.actor, event.about) == ("cli:a???", "brand:?[2J")
    assert event.detail == '{"note": "\\ud800"}'


@pytest.mark.parametrize(
    ("latency", "upper_s", "text"),
    [
        (0, 1, "≤ 1 s"),
        (SECOND, 1, "≤ 1 s"),
        (SECOND + 1, 2, "≤ 2 s"),
        (61 * SECOND, 120, "≤ 2 min"),
        (HOUR, 3600, "≤ 60 min"),
        (HOUR + 1, 0, "> 1 h"),
    ],
)
def test_a_latency_falls_into_its_class(latency: Span, upper_s: int, text: str) -> None:
    assert latency_class(latency) == upper_s
    assert format_latency(upper_s) == text


def test_figures_come_from_counts() -> None:
    counts = [
        PaymentCount("acme", Status.PENDING, 0, 10),
        PaymentCount("acme", Status.SUCCESS, 1, 6),
        PaymentCount("acme", Status.SUCCESS, 5, 2),
        PaymentCount("acme", Status.FAILED, 0, 1),
    ]
    acme = statistics_by_key(counts)["acme"]
    assert (acme.created, acme.succeeded, acme.failed) == (10, 8, 1)
    assert format_rate(acme.success_rate) == "88.9 %"
    assert [acme.quantile(share) for share in (0.5, 0.7, 0.95)] == [1, 5, 0]
    [empty] = statistics_over_time([], Instant(0), Instant(HOUR), HOUR)
    assert (empty.success_rate, empty.quantile(0.5)) == (None, None)
    assert (format_rate(None), format_latency(None)) == ("–", "–")


def test_charts_say_what_was_counted() -> None:
    counts = [
        PaymentCount(str(hour * HOUR), status, latency_s, 7 * hour + 1)
        for hour in (0, 1, 2, 5, 6, 23)
        for status, latency_s in ((Status.PENDING, 0), (Status.SUCCESS, 5), (Status.FAILED, 0))
    ]
    labels = [f"{hour:02}:00" for hour in range(24)]
    volume, latency, rate = build_charts(
        statistics_over_time(counts, Instant(0), Instant(24 * HOUR), HOUR), labels, with_rate=True
    )
    assert volume.rows[23] == ("23:00", ["162", "162"])
    assert rate.rows[23] == ("23:00", ["50%"])
    assert rate.rows[3] == ("03:00", ["–"])
    assert latency.rows[0] == ("00:00", ["≤ 5 s", "> 1 h"])
    assert [level.text for level in latency.levels] == ["≤ 1 s", "≤ 30 s", "> 1 h"]
    assert [level.text for level in rate.levels] == ["40%", "70%", "100%"]
