"""Write `docs/providers/evidence.md`: what each operator was observed to do, what is only reported or
assumed, and what nobody knows.

PYTHONPATH=src:. python docs/make_evidence.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.evidence import OPERATORS, Capture, Mark, Operator, Statement

PAGE = Path(__file__).with_name("providers") / "evidence.md"

HEAD = """\
# Observed, or only assumed

What the adapters rest on, by operator. *Observed* was seen at the operator; a capture is played before adapter and
core as a test, and says what the play assumes besides. *Documented* stands in the operator's documents or a copy of them.
*Reported* is what other people's programs do. *Assumed* is our choice where nothing better is known, and often an
option of the account.

This page is made by `docs/make_evidence.py`, from the captures in `tests/captures` and from `statements.toml` beside
each adapter. Adding a capture is adding a file; a [rehearsal](README.md#rehearsing-an-account) writes both."""


def page() -> str:
    """Return the page as Markdown."""
    return "\n\n".join([HEAD, *(_section(operator) for operator in OPERATORS)]) + "\n"


def _section(operator: Operator) -> str:
    known = [each for each in operator.statements if each.mark is not Mark.UNKNOWN]
    unknown = [each for each in operator.statements if each.mark is Mark.UNKNOWN]
    parts = [
        f"## {operator.title}",
        _captures(operator.captures) if operator.captures else "Nothing was observed yet.",
        _statements(known),
        "Still unknown:",
        "\n".join(f"- {each.says} ({each.source}; {each.date})" for each in unknown),
    ]
    return "\n\n".join(parts)


def _captures(captures: Iterable[Capture]) -> str:
    rows = [
        f"| {each.seen} | {each.source} | {each.date} | {each.assumed or '-'} | `{each.name}` |"
        for each in captures
    ]
    head = ["| Observed | Source | Date | Assumed besides | Capture |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _statements(statements: Sequence[Statement]) -> str:
    rows = [
        f"| {each.says} | {each.mark.value} | {each.source} | {each.date} | {_option(each)} |"
        for each in statements
    ]
    head = [
        "| What the adapter rests on | Mark | Source | Date | Option |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def _option(statement: Statement) -> str:
    return "-" if statement.option is None else f"`{statement.option}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
