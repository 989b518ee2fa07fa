"""`mmo top`: rates between two readings of the metrics, over all processes, on a screen of 80 columns."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from rich.console import Console

from mmo_trio.cli import main
from mmo_trio.cli.commands.top import render
from mmo_trio.cli.support.live_figures import MetricsReading, live_figures, read_metrics
from tests.support.sandbox_gateway import serving

BEFORE = """
mmo_http_requests_total{process="worker-1",route="direct/payin",status="2xx"} 10
mmo_http_requests_total{process="worker-2",route="direct/payin",status="2xx"} 20
mmo_http_requests_total{process="worker-1",route="status",status="4xx"} 0
mmo_http_request_seconds_bucket{process="worker-1",route="direct/payin",le="0.01"} 10
mmo_http_request_seconds_bucket{process="worker-1",route="direct/payin",le="0.25"} 10
mmo_http_request_seconds_bucket{process="worker-1",route="direct/payin",le="+Inf"} 10
mmo_transactions_pending{process="worker-1"} 7
mmo_transactions_pending{process="worker-2"} 7
mmo_store_up{process="worker-1"} 1
mmo_store_up{process="worker-2"} 1
mmo_callbacks_total{process="worker-1",outcome="delivered"} 5
mmo_callbacks_total{process="worker-1",outcome="timeout"} 1
mmo_provider_closed{process="worker-1",provider="mtn"} 0
mmo_provider_closed{process="worker-2",provider="mtn"} 1
mmo_provider_breaker_state{process="worker-1",provider="mtn",state="closed"} 1
mmo_provider_breaker_state{process="worker-2",provider="mtn",state="open"} 1
mmo_provider_submissions_total{process="worker-1",provider="mtn"} 100
"""
AFTER = (
    BEFORE.replace('route="direct/payin",status="2xx"} 10', 'route="direct/payin",status="2xx"} 30')
    .replace('route="direct/payin",status="2xx"} 20', 'route="direct/payin",status="2xx"} 3')
    .replace('status="4xx"} 0', 'status="4xx"} 5')
    .replace('le="0.01"} 10', 'le="0.01"} 100')
    .replace('le="0.25"} 10', 'le="0.25"} 110')
    .replace('le="+Inf"} 10', 'le="+Inf"} 110')
    .replace('outcome="delivered"} 5', 'outcome="delivered"} 25')
    .replace('provider="mtn"} 100', 'provider="mtn"} 110')
)


def two_readings() -> tuple[MetricsReading, MetricsReading]:
    return read_metrics(BEFORE, 100.0), read_metrics(AFTER, 102.0)


def test_rates_are_those_between_two_readings_of_all_processes() -> None:
    before, now = two_readings()
    figures = live_figures(now, before)
    assert figures.traffic is not None
    assert figures.processes == 2
    assert figures.traffic.creations == 1.5, "worker-2 has begun anew: in sum 3 more"
    assert figures.traffic.rejected == 2.5
    assert figures.traffic.delivered == 10
    assert figures.traffic.undelivered == 0
    assert figures.traffic.slowest_ms == 250
    assert figures.pending == 7, "what is read from the store is not summed"
    (provider,) = figures.providers
    assert (provider.name, provider.submissions, provider.breaker, provider.is_closed) == ("mtn", 5, "open", True)


def test_without_an_earlier_reading_there_are_no_rates() -> None:
    assert live_figures(two_readings()[0], None).traffic is None


def test_the_screen_fits_80_columns() -> None:
    before, now = two_readings()
    for earlier in (None, before):
        printed = StringIO()
        Console(file=printed, width=80).print(render(live_figures(now, earlier), "http://127.0.0.1:8082/metrics"))
        lines = printed.getvalue().splitlines()
        assert max(map(len, lines)) <= 80
        assert "…" not in printed.getvalue() or earlier is None
        assert any("mtn" in line and "open" in line and "closed" in line for line in lines)


async def top(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own, as the gateway of a test logs to this one's output."""
    command = [sys.executable, "-m", "mmo_trio.cli", "top", *arguments]
    return await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)


async def test_it_reads_a_running_sandbox(tmp_path: Path) -> None:
    async with serving(tmp_path) as gateway:
        await gateway.merchant.accepted()
        done = await top("--json", "--every", "0.2", "--url", gateway.ready.console)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["isStoreUp"] is True
    assert [each["name"] for each in figures["providers"]] == ["sandbox"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [(["--url", "http://127.0.0.1:1"], 3, "cannot be reached"), (["--data", "nowhere"], 3, "No sandbox runs")],
)
def test_without_a_gateway_it_says_what_to_do(
    arguments: list[str], exit_code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["top", *arguments])
    assert (done.exit_code, told in done.output) == (exit_code, True), done.output


async def test_another_listener_is_not_taken_for_the_consoles(tmp_path: Path) -> None:
    async with serving(tmp_path) as gateway:
        done = await top("--url", gateway.ready.api)
    assert done.returncode == 2
    assert b"Is it the listener of the console?" in done.stderr
