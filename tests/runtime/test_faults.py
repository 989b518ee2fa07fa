"""What the log says of an unexpected exception: where and what kind, never its values."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_trio.http.faults import describe_fault

VALUE = "254" + "700000001"


def raised() -> Exception:
    """An exception with a cause, in a group, all of them speaking of a value."""
    try:
        try:
            raise KeyError(VALUE)
        except KeyError as cause:
            raise ExceptionGroup(VALUE, [ValueError(VALUE)]) from cause
    except ExceptionGroup as error:
        return error


@pytest.mark.spec("P3", "A5")
def test_kinds_and_places_are_told_and_values_are_not() -> None:
    told = describe_fault(raised())
    for kind in ("ExceptionGroup", "KeyError", "ValueError"):
        assert f"builtins.{kind}" in told
    assert "in raised" in told
    assert VALUE not in told


def test_exceptions_that_cause_each_other_are_told_once() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert describe_fault(first).count("ValueError") == 1


def test_no_module_logs_a_traceback() -> None:
    """A renderer may print the values of every frame with it: `describe_fault` tells the places alone."""
    sources = Path(__file__).parents[2] / "src"
    for file in sources.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "logger.exception(" not in text, file
        assert "exc_info" not in text, file
