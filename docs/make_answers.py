"""Write `docs/internals/answers.md`: what becomes of each report in each state, by the request or the
question that it answers.

PYTHONPATH=src:. python docs/make_answers.py
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support.answer_cells import Cell, payment_cells, reversal_cells

from mmo_sansio.payments.answers import Answer

PAGE = Path(__file__).with_name("internals") / "answers.md"

HEAD = """\
# Reports and what they answer

A request may be answered late, and be sent again meanwhile. So each report names the version of the payment or the
reversal at which its request or question was recorded (`mmo_sansio.payments.answers`), and the rules judge by that.

This page is made by `docs/make_answers.py`, which plays every report at every state of a payment or a reversal that was
sent twice and asked about. `tests/sansio/payments/test_answer_cells.py` has a test for each cell. `created` and
`approved` wait to be sent again. Reports that say when to ask again say: in an hour."""

TITLES = {
    Answer.OLDER: "an earlier request",
    Answer.REQUEST: "the latest request",
    Answer.OVERTAKEN: "a question, and more is known since",
    Answer.QUESTION: "a question",
    Answer.NOTIFICATION: "nothing: a notification",
}
"""What a report answers, in the order of the columns."""


def page() -> str:
    """Return the page as Markdown."""
    parts = (
        HEAD,
        "## Payments",
        _table(payment_cells()),
        "## Reversals",
        _table(reversal_cells()),
    )
    return "\n\n".join(parts) + "\n"


def _table(cells: Iterable[Cell]) -> str:
    """Return a table with a row for each report and what becomes of it; states with the same
    outcomes share a row."""
    outcomes: dict[tuple[str, str], dict[Answer, str]] = {}
    for cell in cells:
        outcomes.setdefault((cell.report, cell.state), {})[cell.answer] = cell.outcome
    # Reports in their order, each with its states.
    states: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for report in dict.fromkeys(report for report, _ in outcomes):
        for (named, state), row in outcomes.items():
            if named == report:
                told = tuple(row.get(answer, "") for answer in TITLES)
                states.setdefault((report, told), []).append(state)
    head = ("Report", "State", *TITLES.values())
    rows = [(report, ", ".join(found), *told) for (report, told), found in states.items()]
    lines = [f"| {' | '.join(each)} |" for each in (head, *rows)]
    return "\n".join((lines[0], "|---" * len(head) + "|", *lines[1:]))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
