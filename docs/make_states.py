"""Draw `docs/states.md` from the legality table, so that the page can't say anything else than the law.

PYTHONPATH=src python docs/make_states.py
"""

from __future__ import annotations

from inspect import getdoc
from pathlib import Path

from mmo_sansio.payments import states
from mmo_sansio.payments.states import TRANSITION_INPUTS, TRANSITIONS
from mmo_sansio.values.model import Stage

PAGE = Path(__file__).with_name("states.md")

BORN = (
    (Stage.CREATED, "CreatePayment"),
    (Stage.AWAITING_CUSTOMER, "CreatePayment (web)"),
    (Stage.SUCCEEDED, "DepositNotified"),
)
"""Where a transaction begins, and with what."""


def page() -> str:
    """The whole page."""
    theory = (getdoc(states) or "").replace(":mod:", "")
    return (
        "\n\n".join(
            (
                "# States of a payment",
                "This page is drawn from the legality table by `docs/make_states.py`; a test compares the two.",
                theory,
                "## The stages\n\n" + _stages(),
                "## The moves\n\n" + _diagram(),
                "## The table\n\n"
                "Rows are stages, columns are inputs; a cell names the stages it may lead to. An empty cell changes "
                "nothing: a result that meets one goes to the suspense book.\n\n" + _table(),
            )
        )
        + "\n"
    )


def _stages() -> str:
    rows = [f"| `{each}` | `{each.status}` |" for each in Stage]
    return "\n".join(("| Stage | Merchants see |", "|---|---|", *rows))


def _diagram() -> str:
    lines = [f"    [*] --> {stage}: {name}" for stage, name in BORN]
    for stage, row in TRANSITIONS.items():
        leads: dict[Stage, list[str]] = {}
        for given, targets in row.items():
            for to in targets:
                leads.setdefault(to, []).append(given.__name__)
        lines += [f"    {stage} --> {to}: {', '.join(names)}" for to, names in leads.items()]
    lines += [f"    {stage} --> [*]" for stage, row in TRANSITIONS.items() if not row]
    return "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))


def _table() -> str:
    head = "| | " + " | ".join(each.__name__ for each in TRANSITION_INPUTS) + " |"
    rule = "|---" * (len(TRANSITION_INPUTS) + 1) + "|"
    rows = [
        f"| `{stage}` | "
        + " | ".join(", ".join(f"`{to}`" for to in row.get(each, ())) for each in TRANSITION_INPUTS)
        + " |"
        for stage, row in TRANSITIONS.items()
    ]
    return "\n".join((head, rule, *rows))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
