"""Every limit has its specified default, and every error names the setting and the remedy."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.payments.rules.timers import FINAL_POLL_BEFORE_EXPIRY
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Span
from mmo_trio.settings import (
    ListenAddress,
    Settings,
    SettingsError,
    effective_settings,
    format_span,
    load_settings,
)
from mmo_trio.settings.describe import settings_page
from mmo_trio.settings.load import PENDING_TIMEOUT_MIN
from mmo_trio.settings.sections import SETTINGS
from mmo_trio.settings.service import ServiceAddresses, check_production, sandbox_presets
from mmo_trio.settings.values import AMOUNTS, SPAN, mask_database_url
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import open_store

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"

LIMITS: list[tuple[str, str, object]] = [
    ("Pending transaction timeout", "limits.pending_timeout", 3 * clock.DAY),
    ("Callback timeout", "limits.callback_timeout", 15 * clock.SECOND),
    ("Callback response body logged", "mmo_sansio.http.exchange:RESPONSE_BODY_BYTES_MAX", 1 << 20),
    ("Idempotency tracking window", "limits.idempotency_window", 15 * clock.MINUTE),
    ("API key cache", "limits.api_key_cache", clock.MINUTE),
    ("records pageSize default", "mmo_sansio.messages.queries:RECORDS_PAGE_DEFAULT", 50),
    ("records pageSize largest", "mmo_sansio.messages.queries:RECORDS_PAGE_MAX", 5000),
    ("labels", "mmo_sansio.api.incoming.creation_body:LABELS_MAX", 10),
    ("method path segment", "mmo_sansio.api.incoming.creation_body:METHOD_MAX", 100),
    ("references, id and names", "mmo_sansio.api.incoming.creation_body:TEXT_MAX", 255),
    ("email", "mmo_sansio.api.incoming.creation_body:EMAIL_MAX", 320),
    ("msisdn shortest", "mmo_sansio.api.incoming.creation_body:MSISDN_MIN", 3),
    ("msisdn longest", "mmo_sansio.api.incoming.creation_body:MSISDN_MAX", 20),
    ("country", "mmo_sansio.api.incoming.creation_body:COUNTRY_MAX", 10),
    ("URLs", "mmo_sansio.http.egress_rules:URL_LENGTH_MAX", 2048),
]
"""The specification's table "Limits". Two of its rows are no figures of ours: the polling interval
is advice to merchants (L4), and an amount is limited by its currency and the brand's methods (M1,
C11)."""

CHOSEN: list[tuple[str, object]] = [
    ("limits.page_session", 30 * clock.MINUTE),
    ("limits.body", 256 * 1024),
    ("limits.callbacks_per_merchant", 16),
    ("limits.callbacks", 2048),
    ("breaker.window", 60 * clock.SECOND),
    ("breaker.minimum_requests", 5),
    ("breaker.failure_ratio", 0.5),
    ("breaker.open_for", 30 * clock.SECOND),
    ("egress.allow_private", False),
    ("notices.allow_private", False),
    ("notices.messages_per_hour", 6),
    ("notices.repeat_after", 12 * clock.HOUR),
    ("notices.failed_callbacks", 20),
    ("egress.allowed_ports", ()),
]


def figure(place: str) -> Any:
    """Return a setting's default by its key, or a constant by `module:NAME`."""
    module, _, constant = place.partition(":")
    if constant:
        return getattr(import_module(module), constant)
    section, _, key = place.partition(".")
    return getattr(getattr(Settings(), section), key)


def test_the_listeners_defaults_are_the_settings_defaults() -> None:
    assert Settings().limits.listener_limits == ListenerLimits()


@pytest.mark.spec("V1")
@pytest.mark.parametrize(("limit", "place", "value"), LIMITS, ids=[row[0] for row in LIMITS])
def test_every_specified_limit_is_a_named_figure(limit: str, place: str, value: object) -> None:
    assert figure(place) == value


@pytest.mark.spec("V1", "K5", "K6", "W1", "G7")
@pytest.mark.parametrize(("place", "value"), CHOSEN, ids=[row[0] for row in CHOSEN])
def test_every_further_limit_has_its_default(place: str, value: object) -> None:
    assert figure(place) == value


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("3d", 3 * clock.DAY),
        ("15m", 15 * clock.MINUTE),
        ("60s", clock.MINUTE),
        ("90m", 90 * clock.MINUTE),
        ("1h30m", 90 * clock.MINUTE),
        ("500ms", clock.SECOND // 2),
        ("3650d", 3650 * clock.DAY),
    ],
)
def test_durations_are_read_and_written(text: str, span: Span) -> None:
    assert SPAN.read(text) == span
    assert SPAN.read(format_span(span)) == span


def in_file(folder: Path, text: str) -> Path:
    file = folder / "mmo.toml"
    file.write_text(text)
    return file


def test_the_layers_lie_over_each_other(tmp_path: Path) -> None:
    file = in_file(
        tmp_path,
        '[limits]\nbody = "1KiB"\nqueue = 7\nbatch = 8\n[listen]\nproxy_trusted = ["10.0.0.0/8"]\n',
    )
    settings = load_settings(
        file=file,
        environment={"MMO_LIMITS_QUEUE": "9", "MMO_LIMITS_BATCH": "10", "PATH": "/bin"},
        options={"limits.batch": "11"},
        presets={"limits.body": "2KiB", "egress.allow_private": "true"},
    )
    limits = settings.limits
    assert (limits.body, limits.queue, limits.batch) == (1024, 9, 11)
    assert settings.egress.allow_private
    assert [str(each) for each in settings.listen.proxy_trusted] == ["10.0.0.0/8"]


def test_a_page_session_may_be_off() -> None:
    assert load_settings(environment={"MMO_LIMITS_PAGE_SESSION": "off"}).limits.page_session is None


def test_variables_for_tests_are_left_alone() -> None:
    assert load_settings(environment={"MMO_TEST_DSN": "x"}) == Settings()


def test_providers_come_from_file_and_environment(tmp_path: Path) -> None:
    file = in_file(
        tmp_path, '[provider.mpesa-ke]\nkind = "mpesa_daraja"\nshortcode = 174379\npasskey = "x"\n'
    )
    environment = {
        "MMO_PROVIDER__MPESA_KE__PASSKEY": "secret-passkey",
        "MMO_PROVIDER__SANDBOX__KIND": "sandbox",
    }
    settings = load_settings(file=file, environment=environment)
    assert settings.providers["mpesa-ke"].options == {
        "shortcode": 174379,
        "passkey": "secret-passkey",
    }
    assert settings.providers["sandbox"].kind == "sandbox"
    assert "secret-passkey" not in repr(settings)
    assert "secret-passkey" not in str(tuple(effective_settings(settings)))


def test_the_shortest_time_for_a_pending_payment_has_room_for_a_submission_and_a_poll() -> None:
    assert PENDING_TIMEOUT_MIN == FINAL_POLL_BEFORE_EXPIRY + SUBMISSION_TIMEOUT


FILE_FAULTS = [
    ('[limts]\nbody = "1KiB"', ["mmo.toml: [limts]", "limits"]),
    ('[limits]\nbodi = "1KiB"', ["mmo.toml: limits.bodi", "Did you mean body?"]),
    ('[limits]\nbody = "big"', ["mmo.toml: limits.body", '"64KiB"', "'big'"]),
    ("[limits]\nbody = true", ["limits.body"]),
    ("[limits]\nqueue = 0", ["limits.queue", "at least 1"]),
    ("[limits]\nidle_timeout = 30", ["limits.idle_timeout", "unit"]),
    ('[limits]\nidle_timeout = "0s"', ["limits.idle_timeout", "above 0"]),
    ('[limits]\npending_timeout = "9999999d"', ["limits.pending_timeout", "3650d"]),
    ('[limits]\npending_timeout = "10m29s"', ["limits.pending_timeout", "shorter than 10m30s"]),
    ('[limits]\nidempotency_window = "59s"', ["limits.idempotency_window", "shorter than 60s"]),
    ('[limits]\ncallback_timeout = "999ms"', ["limits.callback_timeout", "shorter than 1s"]),
    ('[limits]\npage_session = "80h"', ["limits.page_session", "limits.pending_timeout"]),
    ('[console]\nsession_idle = "13h"', ["console.session_idle", "console.session_life"]),
    ("limits = 3", ["limits", "[limits]"]),
    ("[limits", ["mmo.toml", "is not TOML"]),
    ('[listen]\napi = "8080"', ["listen.api", "HOST:PORT"]),
    ('[listen]\napi = "::1:8080"', ["listen.api", "[::1]:8080"]),
    ('[listen]\napi = "localhost:65536"', ["listen.api"]),
    ('[listen]\nproxy_trusted = ["proxy"]', ["listen.proxy_trusted", "10.0.0.0/8"]),
    ('[notices]\nwebhook_url = "http://chat.example/x"', ["notices.webhook_url", "https://"]),
    ('[notices]\nwebhook_url = "https://"', ["notices.webhook_url"]),
    ('[notices]\nwebhook_key_file = "key"', ["notices.webhook_key_file", "notices.webhook_url"]),
    ('[listen]\ntls_key = "key.pem"', ["listen.tls_key", "listen.tls_certificate"]),
    ('[listen]\nallow_clear = "maybe"', ["listen.allow_clear", "true or false"]),
    ('[gateway]\nbase_url = "pay.example.com"', ["gateway.base_url", "https://pay.example.com"]),
    ("[breaker]\nfailure_ratio = 1.5", ["breaker.failure_ratio", "at most 1"]),
    ("[breaker]\nfailure_ratio = nan", ["breaker.failure_ratio"]),
    ("[egress]\nallowed_ports = [0]", ["egress.allowed_ports", "8443"]),
    ("[limits]\ncallbacks = 4", ["limits.callbacks_per_merchant", "limits.callbacks"]),
    ('[database]\nurl = "mysql://root:hunter2@db/x"', ["database.url", "postgresql://"]),
    ("[provider]\nmpesa = 3", ["[provider.mpesa]", "table"]),
    ('[provider.mpesa]\nkind = "mpesa"', ["provider.mpesa.kind", "mpesa_daraja"]),
    ("[provider.mpesa]\npasskey = 3", ["provider.mpesa.kind", "is missing"]),
]


@pytest.mark.parametrize(("text", "said"), FILE_FAULTS, ids=[row[0] for row in FILE_FAULTS])
def test_a_fault_in_the_file_is_named_with_its_remedy(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(file=in_file(tmp_path, text))
    assert [part for part in said if part not in str(caught.value)] == []
    assert caught.value.remedy or caught.value.fault.startswith("must")
    assert "hunter2" not in str(caught.value)


ENVIRONMENT_FAULTS = [
    ("MMO_LIMIT_BODY", "1KiB", "Did you mean MMO_LIMITS_BODY?"),
    ("MMO_LIMITS_BODY", "x", "64KiB"),
    ("MMO_PROVIDER__MPESA", "x", "MMO_PROVIDER__NAME__KEY"),
    ("MMO_PROVIDER__MPESA__KIND", "momo", "mtn_momo"),
]


@pytest.mark.parametrize(("name", "value", "said"), ENVIRONMENT_FAULTS)
def test_a_fault_in_the_environment_names_the_variable(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={name: value})
    assert name in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.spec("A3")
def test_a_key_can_not_be_believed_for_longer_than_a_minute() -> None:
    with pytest.raises(SettingsError, match="MMO_LIMITS_API_KEY_CACHE: is longer than 60s"):
        load_settings(environment={"MMO_LIMITS_API_KEY_CACHE": "61s"})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: can't be read"):
        load_settings(file=tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://chat.example/hooks/hunter2", "https://chat.example/***"),
        ("https://chat.example:8443/x?token=hunter2", "https://chat.example:8443/***"),
    ],
)
def test_what_is_in_force_hides_the_path_of_the_webhook_for_staff(url: str, shown: str) -> None:
    settings = load_settings(environment={"MMO_NOTICES_WEBHOOK_URL": url})
    rows = {row.key: row.value for row in effective_settings(settings)}
    assert rows["notices.webhook_url"] == shown


def test_a_wrong_address_for_staff_is_not_repeated() -> None:
    secret = "http://chat.example/hunter2"
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={"MMO_NOTICES_WEBHOOK_URL": secret})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgresql://mmo:hunter2@/mmo?application_name=a",
            "postgresql://mmo:***@/mmo?application_name=a",
        ),
        ("postgresql://mmo@/mmo?password=hunter2", "postgresql://mmo@/mmo?password=***"),
        (
            "postgresql:///mmo?user=a&p%61ssword=hunter2&port=1",
            "postgresql:///mmo?user=a&p%61ssword=***&port=1",
        ),
        (
            "postgresql:///mmo?sslpassword=hunter2&password=hunter2",
            "postgresql:///mmo?sslpassword=***&password=***",
        ),
        ("sqlite:////var/a:b@c/gateway.db", "sqlite:////var/a:b@c/gateway.db"),
    ],
)
def test_what_is_in_force_hides_the_passwords_of_the_database(url: str, shown: str) -> None:
    settings = load_settings(environment={"MMO_DATABASE_URL": url})
    rows = {row.key: row for row in effective_settings(settings)}
    assert rows["database.url"].value == shown
    assert not rows["database.url"].is_default
    assert rows["limits.page_session"].value == "30m"


def test_a_password_is_hidden_though_the_address_is_wrong() -> None:
    assert mask_database_url("postgresql://mmo:hunter/2@db/mmo") == "postgresql://mmo:***@db/mmo"
    masked = mask_database_url("postgresql://mmo:hun@ter2@[::1/mmo?token=a&b")
    assert masked == "postgresql://mmo:***@[::1/mmo?token=***&b"


@pytest.mark.parametrize("password", ["p@ss-word", "p/ss-word", "p@/ss-word"])
def test_no_part_of_a_password_is_taken_for_the_host(password: str) -> None:
    url = f"postgresql://mmo:{password}@127.0.0.1/mmo"
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={"MMO_DATABASE_URL": url})
    assert "ss-word" not in str(caught.value)
    assert "%40" in caught.value.remedy
    escaped = url.replace(password, password.replace("@", "%40").replace("/", "%2F"))
    assert load_settings(environment={"MMO_DATABASE_URL": escaped}).database.url == escaped


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mmo@db/mmo",
        "postgresql://mmo@127.0.0.1,db/mmo?sslmode=require",
        "postgresql:///mmo?host=db.example&sslmode=verify-ca",
        "postgres://mmo@localhost/mmo?hostaddr=192.0.2.1",
        "postgresql://mmo@[2001:db8::1]/mmo?sslmode=prefer",
    ],
)
def test_postgresql_on_another_machine_must_prove_its_name(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        SettingsError, match="MMO_DATABASE_URL: would reach PostgreSQL on"
    ) as caught:
        load_settings(environment={"MMO_DATABASE_URL": url})
    assert "sslmode=verify-full" in caught.value.remedy
    assert "database.allow_clear" in caught.value.remedy
    load_settings(environment={"MMO_DATABASE_URL": url, "MMO_DATABASE_ALLOW_CLEAR": "true"})
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    if "sslmode" not in url:
        load_settings(environment={"MMO_DATABASE_URL": url})


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///gateway.db",
        "postgresql:///mmo",
        "postgresql://mmo@localhost,127.0.0.2,[::1]/mmo",
        "postgresql://%2Frun%2Fpostgresql/mmo",
        "postgresql://mmo@db1,db2/mmo?sslmode=verify-full",
        "postgresql://mmo@db/mmo?sslrootcert=system",
    ],
)
def test_a_database_on_this_machine_or_with_a_proved_name_may_be_used(url: str) -> None:
    assert load_settings(environment={"MMO_DATABASE_URL": url}).database.url == url


def test_an_unknown_scheme_of_the_database_names_what_there_is() -> None:
    with pytest.raises(
        SettingsError, match=r"'mysql'\. Known are: sqlite, postgresql, postgres\.$"
    ) as caught:
        load_settings(environment={"MMO_DATABASE_URL": "mysql://root:hunter2@db/x"})
    assert caught.value.location == "MMO_DATABASE_URL"
    assert "hunter2" not in str(caught.value)
    with pytest.raises(StoreUnusable, match="mysql"):
        open_store("mysql://root@db/x", serving=True)


def test_every_setting_is_described() -> None:
    for row in SETTINGS.values():
        assert re.fullmatch(r"[A-Z].*[.)]", row.meaning), row.key
        assert row.default_text or row.kind.format(row.default)
        assert row.variable == "MMO_" + row.key.replace(".", "_").upper()


def test_the_page_of_the_documentation_is_current() -> None:
    assert PAGE.read_text() == settings_page(), "python -m mmo_trio.settings > docs/settings.md"


def test_a_sandbox_keeps_everything_in_its_data_directory(tmp_path: Path) -> None:
    settings = load_settings(presets=sandbox_presets(tmp_path, free_ports=True))
    assert settings.database.url == f"sqlite:///{tmp_path}/gateway.db"
    assert settings.listen.api == ListenAddress("127.0.0.1", 0)
    assert settings.keys.master_key_file.parent == tmp_path
    assert settings.egress.allow_private


CLEAR = [
    ({"MMO_LISTEN_API": "0.0.0.0:8080"}, "listen.api"),
    ({"MMO_LISTEN_HTTP2": "0.0.0.0:8090"}, "listen.http2"),
    ({"MMO_LISTEN_PAGES": "[::]:8081"}, "listen.pages"),
    ({"MMO_LISTEN_CONSOLE": "10.1.2.3:8082"}, "listen.console"),
    ({"MMO_LISTEN_API": "gateway.example:8080"}, "listen.api"),
]


@pytest.mark.parametrize(("environment", "key"), CLEAR)
def test_clear_http_beyond_this_machine_is_refused(environment: dict[str, str], key: str) -> None:
    with pytest.raises(SettingsError, match=key) as caught:
        check_production(load_settings(environment=environment), workers=1)
    assert "allow_clear" in caught.value.remedy
    for allowance in ({"MMO_LISTEN_ALLOW_CLEAR": "true"}, {"MMO_LISTEN_PROXY_TRUSTED": "10.0.0.1"}):
        check_production(load_settings(environment=environment | allowance), workers=1)


def test_several_workers_need_postgresql() -> None:
    with pytest.raises(SettingsError, match="--workers: 2 processes") as caught:
        check_production(Settings(), workers=2)
    assert "PostgreSQL" in caught.value.remedy
    on_postgres = load_settings(
        environment={"MMO_DATABASE_URL": "postgresql://mmo@db/mmo?sslmode=verify-full"}
    )
    check_production(on_postgres, workers=2)


def test_the_ready_line_holds_the_key_only_when_there_is_one() -> None:
    addresses = ("http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3")
    plain = "READY api=http://127.0.0.1:1 pages=http://127.0.0.1:2 console=http://127.0.0.1:3"
    assert ServiceAddresses(*addresses).ready_line() == plain
    with_http2 = ServiceAddresses(*addresses, "demo", http2="http://127.0.0.1:4")
    assert with_http2.ready_line() == f"{plain} http2=http://127.0.0.1:4 brand=demo"
    with_key = ServiceAddresses(*addresses, "demo", "k1")
    assert with_key.ready_line() == f"{plain} brand=demo api_key=k1"
    assert "k1" not in repr(with_key)


@pytest.mark.parametrize("value", [["XOF 25.000"], ["KES 1.500"], ["KES 1e3"]])
def test_an_amount_whose_point_may_part_thousands_is_refused(value: list[str]) -> None:
    with pytest.raises(SettingsError):
        AMOUNTS.read(value)


def test_every_amount_of_a_setting_begins_with_its_currency() -> None:
    assert AMOUNTS.read(["KES 5000"])[0].minor == 500_000
    environment = {"MMO_CONSOLE_REVERSAL_LIMITS": "support KES 5000, approver KES 50000"}
    limits = load_settings(environment=environment).console.reversal_limits
    assert [str(each) for each in limits] == ["support KES 5000.00", "approver KES 50000.00"]
    for written in ("support 5000 KES", "support KES", "5000", "nobody KES 5000"):
        with pytest.raises(SettingsError, match="support KES 5000"):
            load_settings(environment={"MMO_CONSOLE_REVERSAL_LIMITS": written})
