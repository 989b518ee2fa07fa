"""What becomes of each report in each state, as the answer to each request or question that there
may have been (S5, S6)."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from mmo_sansio.payments.answers import Answer
from tests.support.answer_cells import Cell, payment_cells, reversal_cells

DOCS = Path(__file__).parents[3] / "docs"

IN_ORDER: Final = (
    Answer.OLDER,
    Answer.REQUEST,
    Answer.OVERTAKEN,
    Answer.QUESTION,
    Answer.NOTIFICATION,
)

PAYMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "ProviderAccepted": {
        "created": "awaiting result",
        "submitting": "awaiting result",
        "awaiting result": "asked when due / asked later / asked later / asked later / asked later",
    },
    "ProviderSucceeded": {
        "created": "succeeded",
        "submitting": "succeeded",
        "awaiting result": "succeeded",
        "succeeded": "suspense book",
        "failed": "suspense book",
    },
    "ProviderFailed": {  # The request is a further one: the first may have arrived after all.
        "created": "failed",
        "submitting": "nothing / asked sooner / failed / failed / failed",
        "awaiting result": "nothing / asked sooner / failed / failed / failed",
        "succeeded": "suspense book",
        "failed": "suspense book",
    },
    "ProviderUnreachable": {
        "submitting": "nothing / asked later / asked later / asked later / asked later",
        "awaiting result": "nothing / asked later / asked later / asked later / asked later",
    },
    "ProviderNeverReceived": {"submitting": "nothing / sent again / sent again / sent again"},
    "ProviderCannotTell": {
        "submitting": "nothing / nothing / nothing / asked no more / nothing",
        "awaiting result": "nothing / nothing / nothing / asked no more / nothing",
    },
    "ProviderHinted": {
        "submitting": "asked sooner",
        "awaiting result": "asked sooner",
        "failed": "asked about",
    },
}
"""The outcomes by report and stage, in the order above; one for all, and none where nothing
happens."""

_ACCEPTED: Final = (
    "accepted, asked when due / accepted, asked later / accepted, asked later /"
    " accepted, asked later / accepted, asked later"
)

_ANSWERED_LATEST: Final = "nothing / nothing / nothing / asked no more / nothing"
"""Only the answer to the latest question ends the asking about what has ended."""

_CONTRADICTED: Final = (
    "suspense book / suspense book / suspense book / asked no more, suspense book / suspense book"
)

_NEVER_RECEIVED_AFTER_ALL: Final = (
    "nothing / nothing / nothing / asked no more, suspense book / nothing"
)

_ASKED_ABOUT: Final = (
    "succeeded (by hand, asked about)",
    "failed (asked about)",
    "moved after all (by hand, asked about)",
)
"""What has ended, and a hint has caused to be asked about."""

REVERSALS: Final[Mapping[str, Mapping[str, str]]] = {
    "ReversalAccepted": {
        "approved": _ACCEPTED,
        "sent (unanswered)": _ACCEPTED,
        "sent (accepted)": "asked when due / asked later / asked later / asked later / asked later",
        "unknown": _ACCEPTED,
        "unknown (not asked about)": "accepted, asked sooner",
        **dict.fromkeys(
            ("failed", "succeeded (by hand)", "moved after all (by hand)"),
            "asked sooner / asked sooner / asked sooner / nothing / asked sooner",
        ),
        **dict.fromkeys(_ASKED_ABOUT, "nothing / nothing / nothing / nothing / asked sooner"),
    },
    "ReversalSucceeded": {
        "approved": "succeeded",
        "sent (unanswered)": "succeeded",
        "sent (accepted)": "succeeded",
        "unknown": "succeeded",
        "unknown (not asked about)": "succeeded",
        "failed": "moved after all, suspense book",
        "failed (asked about)": "moved after all, asked no more, suspense book",
        "succeeded (by hand, asked about)": _ANSWERED_LATEST,
        "moved after all (by hand, asked about)": _ANSWERED_LATEST,
    },
    "ReversalFailed": {  # The request is a further one: the first may have arrived after all.
        "approved": "nothing / unknown, asked sooner / failed / failed / failed",
        "sent (unanswered)": "nothing / unknown, asked sooner / failed / failed / failed",
        "sent (accepted)": "nothing / asked sooner / failed / failed / failed",
        "unknown": "nothing / asked sooner / failed / failed / failed",
        "unknown (not asked about)": "nothing / asked sooner / failed / failed / failed",
        "succeeded": "suspense book",
        "succeeded (by hand)": "suspense book",
        "succeeded (by hand, asked about)": _CONTRADICTED,
        "failed (asked about)": _ANSWERED_LATEST,
        "moved after all (by hand)": "suspense book",
        "moved after all (by hand, asked about)": _CONTRADICTED,
    },
    "ReversalUnreachable": {
        "sent (unanswered)": (
            "nothing / unknown, asked later / unknown, asked later / unknown, asked later /"
            " unknown, asked later"
        ),
        "sent (accepted)": "nothing / asked later / asked later / asked later / asked later",
        "unknown": "nothing / asked later / asked later / asked later / asked later",
    },
    "ReversalNeverReceived": {
        "sent (unanswered)": "nothing / sent again / sent again / sent again",
        "unknown": "nothing / sent again / sent again / sent again",
        "unknown (not asked about)": "nothing / sent again / sent again / sent again",
        "succeeded (by hand, asked about)": _NEVER_RECEIVED_AFTER_ALL,
        "failed (asked about)": _ANSWERED_LATEST,
        "moved after all (by hand, asked about)": _NEVER_RECEIVED_AFTER_ALL,
    },
    "ReversalCannotTell": {
        "sent (unanswered)": "nothing / nothing / nothing / unknown, asked no more / nothing",
        "sent (accepted)": "nothing / nothing / nothing / asked no more / nothing",
        "unknown": "nothing / nothing / nothing / asked no more / nothing",
        **dict.fromkeys(_ASKED_ABOUT, _ANSWERED_LATEST),
    },
    "ReversalHinted": {
        "sent (unanswered)": "asked sooner",
        "sent (accepted)": "asked sooner",
        "unknown": "asked sooner",
        "unknown (not asked about)": "asked sooner",
        "failed": "asked sooner",
        "succeeded (by hand)": "asked sooner",
        "moved after all (by hand)": "asked sooner",
        **dict.fromkeys(_ASKED_ABOUT, "asked sooner"),
    },
}


def expected(cell: Cell) -> str:
    """Return the outcome that the tables above have for a cell."""
    row = {**PAYMENTS, **REVERSALS}[cell.report].get(cell.state, "nothing")
    outcomes = [each.strip() for each in row.split("/")]
    return outcomes[0] if len(outcomes) == 1 else outcomes[IN_ORDER.index(cell.answer)]


CELLS: Final = (*payment_cells(), *reversal_cells())


@pytest.mark.spec("S2", "S5", "S6")
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_a_report_counts_for_what_it_answers(cell: Cell) -> None:
    assert cell.outcome == expected(cell)


def test_every_outcome_that_is_expected_is_that_of_a_cell() -> None:
    found = {(cell.report, cell.state) for cell in CELLS}
    for report, row in {**PAYMENTS, **REVERSALS}.items():
        assert found >= {(report, state) for state in row}


def test_the_page_of_answers_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_answers.py"))["page"]()
    written = (DOCS / "internals" / "answers.md").read_text(encoding="utf-8")
    assert written == made, "run: PYTHONPATH=src:. python docs/make_answers.py"
