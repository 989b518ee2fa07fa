"""Metrics of a running gateway: sensible names, bounded labels, and figures that follow what
happens."""

from __future__ import annotations

import re

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from mmo_sansio import __version__
from mmo_sansio.api.incoming.requests import ROUTE_NAMES
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.values.problems import PROBLEM_TYPES
from mmo_trio.storage.interface.admin_types import ApprovalKind
from mmo_trio.storage.interface.retention import RetentionDuty
from mmo_trio.system.build import commit
from mmo_trio.workers.providers.worker import REPORT_LABELS
from tests.support.merchant import ask
from tests.support.sandbox_gateway import Running, Serve
from tests.support.time_limits import HANGS_AFTER_S

LABELS: dict[str, set[str]] = {
    "route": {*ROUTE_NAMES, "none"},
    "status": {"2xx", "4xx", "5xx"},
    "problem": {each.segment for each in PROBLEM_TYPES},
    "provider": {"sandbox"},
    "report": set(REPORT_LABELS.values()),
    "outcome": {each.value for each in DeliveryOutcome},
    "duty": {each.value for each in RetentionDuty},
    "state": {"closed", "open", "half_open"},
    "result": {"success", "failed"},
    "kind": {each.value for each in ApprovalKind},
}
"""What each label may be; those not here are free of bounds by their nature: `le`, `version`,
`commit`, `python`."""


OTHER_UNITS = {"milliseconds", "microseconds", "minutes", "hours", "days", "kilobytes", "percent"}
"""Units that Prometheus has base units for: its linter warns of them anywhere in a name."""


async def figures(sandbox: Running) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample by its name and the values of its labels."""
    answer = await ask(f"{sandbox.ready.console}/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_names_follow_the_conventions_and_labels_are_bounded(sandbox: Running) -> None:
    await sandbox.merchant.ended((await sandbox.merchant.accepted())["gatewayReference"])
    await sandbox.merchant.create(country="ZZ")
    text = (await ask(f"{sandbox.ready.console}/metrics")).body.decode()
    families = list(text_string_to_metric_families(text))
    assert len(families) > 20
    for family in families:
        assert not OTHER_UNITS & {*family.name.split("_")}, family.name
        assert re.fullmatch(r"mmo_[a-z][a-z_]*", family.name)
        assert family.documentation.endswith((".", "1.")), family.name
        assert family.name.endswith("_seconds") == (family.type == "histogram"), family.name
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            for label, value in sample.labels.items():
                if label not in {"le", "version", "commit", "python"}:
                    assert value in LABELS[label], (sample.name, label, value)
    assert sandbox.merchant.key not in text
    assert "demo" not in text, "a brand is no label"


async def test_the_build_is_told(sandbox: Running) -> None:
    text = (await ask(f"{sandbox.ready.console}/metrics")).body.decode()
    [build] = (
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "mmo_build_info"
    )
    assert build.labels["version"] == __version__
    assert build.labels["commit"] == commit()
    assert build.value == 1


async def test_what_happens_is_counted(sandbox: Running) -> None:
    before = await figures(sandbox)
    done = await sandbox.merchant.accepted()
    await sandbox.callback_for(done["gatewayReference"])
    await sandbox.outcome_of(done["gatewayReference"])
    await sandbox.merchant.get(f"status/{done['gatewayReference']}")
    assert (await sandbox.merchant.create(country="ZZ")).status == 400
    assert (await ask(f"{sandbox.ready.api}/nowhere")).status == 404
    after = await figures(sandbox)

    def grown(name: str, *labels: str) -> float:
        return after[name, labels] - before[name, labels]

    assert grown("mmo_http_requests_total", "direct/payin", "2xx") == 1
    assert grown("mmo_http_requests_total", "direct/payin", "4xx") == 1
    assert grown("mmo_http_requests_total", "status", "2xx") >= 1
    assert grown("mmo_http_requests_total", "none", "4xx") == 1
    assert grown("mmo_http_problems_total", "config_unsupported_country") == 1
    assert grown("mmo_http_problems_total", "not_found") == 1
    assert after["mmo_http_request_seconds_count", ("direct/payin",)] == 2
    assert grown("mmo_engine_inputs_total") >= 4
    assert grown("mmo_engine_batches_total") == grown("mmo_store_commit_seconds_count")
    assert grown("mmo_provider_submissions_total", "sandbox") == 1
    assert grown("mmo_provider_reports_total", "sandbox", "accepted") == 1
    assert grown("mmo_provider_exchange_seconds_count", "sandbox") == 1
    assert grown("mmo_transactions_ended_total", "sandbox", "success") == 1
    assert grown("mmo_transactions_ended_total", "sandbox", "failed") == 0
    assert grown("mmo_callbacks_total", "delivered") == 1
    assert grown("mmo_callback_seconds_count") == 1
    assert after["mmo_store_up", ()] == 1
    assert after["mmo_wall_clock_trusted", ()] == 1
    assert after["mmo_wall_clock_seconds_ahead", ()] == 0


async def test_what_waits_in_the_store_is_told(sandbox: Running) -> None:
    for _ in range(2):
        await sandbox.merchant.accepted(scenario="never")
    found = await figures(sandbox)
    assert found["mmo_transactions_pending", ()] == 2
    assert found["mmo_transactions_stuck", ()] == 0
    assert found["mmo_suspense_open", ()] == 0
    assert found["mmo_provider_closed", ("sandbox",)] == 0
    assert found["mmo_approvals_open", ("reversal",)] == 0
    assert found["mmo_audit_log_changes_total", ()] == 0


async def test_a_payment_is_stuck_after_an_hour_without_a_result(sandbox: Running) -> None:
    await sandbox.merchant.accepted(scenario="never")
    await sandbox.advance("61m")
    assert (await figures(sandbox))["mmo_transactions_stuck", ()] == 1


@pytest.mark.own_store
async def test_the_difference_from_the_clock_of_postgresql_is_told(
    serve: Serve, migrated_database: str
) -> None:
    async with serve(environment={"MMO_DATABASE_URL": migrated_database}) as sandbox:
        with trio.fail_after(HANGS_AFTER_S):
            while ("mmo_store_clock_seconds_ahead", ()) not in (found := await figures(sandbox)):
                pass  # Each look waits for the gateway.
    assert abs(found["mmo_store_clock_seconds_ahead", ()]) < 1


@pytest.mark.own_store
async def test_sqlite_has_no_clock_to_differ_from(sandbox: Running) -> None:
    assert ("mmo_store_clock_seconds_ahead", ()) not in await figures(sandbox)
