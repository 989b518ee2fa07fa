"""Write `docs/internals/states.md` from the table of transitions, so that it always agrees with the
code.

PYTHONPATH=src python docs/make_states.py
"""

from __future__ import annotations

from inspect import getdoc
from pathlib import Path

from mmo_sansio.payments import states
from mmo_sansio.payments.states import TRANSITION_INPUTS, TRANSITIONS
from mmo_sansio.values.model import Stage

PAGE = Path(__file__).with_name("internals") / "states.md"

INITIAL_STAGES = (
    (Stage.CREATED, "CreatePayment"),
    (Stage.SUBMITTING, "CreatePayment (sent at once)"),
    (Stage.AWAITING_CUSTOMER, "CreatePayment (web)"),
    (Stage.SUCCEEDED, "DepositNotified"),
)
"""The first stage of a transaction, and the input that creates it."""


def page() -> str:
    """Return the page as Markdown."""
    explanation = (getdoc(states) or "").replace(":mod:", "")
    return (
        "\n\n".join(
            (
                "# States of a payment",
                "This page is generated from the table of transitions by `docs/make_states.py`; a"
                " test compares the two.",
                explanation,
                "## The stages\n\n" + _stages(),
                "## The transitions\n\n" + _diagram(),
                "## The table\n\n"
                "Rows are stages, columns are inputs; a cell names the stages that may follow. An"
                " empty cell changes "
                "nothing: a result that has an empty cell goes to the suspense book.\n\n"
                + _table(),
            )
        )
        + "\n"
    )


def _stages() -> str:
    rows = [f"| `{each}` | `{each.status}` |" for each in Stage]
    return "\n".join(("| Stage | Merchants see |", "|---|---|", *rows))


def _diagram() -> str:
    lines = [f"    [*] --> {stage}: {name}" for stage, name in INITIAL_STAGES]
    for stage, row in TRANSITIONS.items():
        sources: dict[Stage, list[str]] = {}
        for input_type, targets in row.items():
            for to in targets:
                sources.setdefault(to, []).append(input_type.__name__)
        lines += [f"    {stage} --> {to}: {', '.join(names)}" for to, names in sources.items()]
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
