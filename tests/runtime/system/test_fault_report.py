"""The log describes an unexpected exception by place and type, never by values."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_trio.system.fault_report import describe_fault
from mmo_trio.system.logs import redact_exception

VALUE = "254" + "700000001"


def raised() -> Exception:
    """Return an exception with a cause, in a group, all with the value in their messages."""
    try:
        try:
            raise KeyError(VALUE)
        except KeyError as cause:
            raise ExceptionGroup(VALUE, [ValueError(VALUE)]) from cause
    except ExceptionGroup as error:
        return error


@pytest.mark.spec("P3", "A5")
def test_kinds_and_places_are_told_and_values_are_not() -> None:
    described = describe_fault(raised())
    for kind in ("ExceptionGroup", "KeyError", "ValueError"):
        assert f"builtins.{kind}" in described
    assert "in raised" in described
    assert VALUE not in described


def test_exceptions_that_cause_each_other_are_told_once() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert describe_fault(first).count("ValueError") == 1


def test_no_module_logs_a_traceback() -> None:
    """A renderer may print the values of every frame with it: `describe_fault` tells the places
    alone."""
    sources = Path(__file__).parents[3] / "src"
    for file in sources.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "logger.exception(" not in text, file
        if file.name != "logs.py":  # It takes them off what libraries log.
            assert "exc_info" not in text, file


@pytest.mark.parametrize("how", ["error", "tuple", "true"])
def test_what_a_library_logs_loses_its_message(how: str) -> None:
    try:
        raise ValueError(VALUE)
    except ValueError as error:
        exc_info = {"error": error, "tuple": (ValueError, error, None), "true": True}[how]
        described = redact_exception(None, "error", {"event": "failed", "exc_info": exc_info})
    assert set(described) == {"event", "fault"}
    assert "ValueError" in described["fault"]
    assert VALUE not in str(described)


def test_what_has_no_exception_stays_as_it_is() -> None:
    assert redact_exception(None, "info", {"event": "fine"}) == {"event": "fine"}
    assert redact_exception(None, "info", {"event": "fine", "exc_info": None}) == {"event": "fine"}
