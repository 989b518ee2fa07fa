"""Events of structlog and of `logging` are written in one form."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from mmo_trio.system.logs import configure_logs


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
