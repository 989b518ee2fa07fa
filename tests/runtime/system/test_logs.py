"""Events of structlog and of `logging` are written in one form."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta

import pytest
import structlog

from mmo_sansio.values.clock import DAY, Span
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.logs import configure_logs, sandbox_time_in_logs


def test_events_look_the_same_whichever_way_they_come(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs(log_format="json", level="info")
    structlog.get_logger("here").warning("it rains", times=2)
    logging.getLogger("here").warning("it rains", extra={"times": 2})
    structlog.get_logger("here").debug("not told")
    one, other = map(json.loads, capfd.readouterr().err.splitlines())
    assert one.pop("timestamp") <= other.pop("timestamp")
    assert one == other == {"event": "it rains", "level": "warning", "logger": "here", "times": 2}


@pytest.mark.spec("P3")
def test_an_exception_is_told_without_its_message(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs(log_format="json", level="info")
    number = "254712345678"
    for logger in (structlog.get_logger("here"), logging.getLogger("here")):
        try:
            raise ValueError(number)
        except ValueError:
            logger.error("it broke", exc_info=True)
    written = capfd.readouterr().err
    assert written.count("builtins.ValueError") == 2
    assert number not in written


def test_a_line_has_the_time_of_a_sandbox_whose_clock_was_advanced(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure_logs(log_format="json", level="info")
    clock = GatewayClock()
    with sandbox_time_in_logs(clock):
        structlog.get_logger("here").info("before")
        clock.advance(Span(3 * DAY))
        structlog.get_logger("here").info("after")
    structlog.get_logger("here").info("elsewhere")
    before, after, elsewhere = map(json.loads, capfd.readouterr().err.splitlines())
    assert "sandbox_time" not in before | elsewhere
    ahead = datetime.fromisoformat(after["sandbox_time"]) - datetime.fromisoformat(
        after["timestamp"]
    )
    assert abs(ahead - timedelta(days=3)) < timedelta(minutes=1)
