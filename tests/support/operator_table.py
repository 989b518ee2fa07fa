"""Describes what can happen to a payment, and plays it with each operator and operation: the table
of docs/internals/operators.md shows what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Span
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation, Stage
from mmo_simulators.common.faults import (
    AnswerInstead,
    CallBack,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    LoseRequest,
    PollWith,
)
from tests.support.equal_rows import names_by_cells
from tests.support.operator_course import Course, Script, play
from tests.support.operator_kinds import MPESA_WITH_PULL, OPERATORS, Operator

SOON = EndAfter(SECOND)
NO_CALLBACK = CallBack(())
JSON = ((b"content-type", b"application/json"),)


@frozen
class Column:
    """An operator's operation."""

    operator: Operator
    operation: Operation
    submission: str
    """The simulator's name of it."""
    question: str
    """The simulator's name of the question about it."""
    not_found: Fault
    """How the operator answers a question about a payment that it does not know."""
    short: str
    """The operator's code for a short balance of the payer, or of the merchant."""
    wrong_number: str = ""
    """The operator's code for a number that has no account; empty: it has none."""
    polled: str = ""
    """A code of failure for questions about what was paid; empty: questions decide, as a callback
    only asks."""


NO_RECEIPT = EndWith("2032")
NO_PROMPT = AnswerInstead(HttpResponse(500))
NO_RESOURCE = AnswerInstead(
    HttpResponse(404, JSON, b'{"code":"RESOURCE_NOT_FOUND","message":"not found"}')
)
NO_TRANSACTION = AnswerInstead(
    HttpResponse(
        200,
        JSON,
        b'{"status":{"response_code":"ESB000045","code":"200","success":false,"message":"none"}}',
    )
)
NO_PAYMENT = AnswerInstead(HttpResponse(200, JSON, b'{"status":"NOT_FOUND"}'))
MPESA, MTN, AIRTEL, PAWAPAY = (
    OPERATORS["mpesa"],
    OPERATORS["mtn"],
    OPERATORS["airtel"],
    OPERATORS["pawapay"],
)
PAYIN, PAYOUT, TAX = Operation.DIRECT_PAYIN, Operation.DIRECT_PAYOUT, Operation.DIRECT_TAXPAYOUT
FUNDS = "NOT_ENOUGH_FUNDS"
COLUMNS: Mapping[str, Column] = {
    "M-Pesa STK": Column(MPESA, PAYIN, "stk_push", "stk_query", NO_PROMPT, "1", polled="1037"),
    "M-Pesa STK, Pull": Column(
        MPESA_WITH_PULL, PAYIN, "stk_push", "stk_query", NO_PROMPT, "1", polled="1037"
    ),
    "M-Pesa B2C": Column(MPESA, PAYOUT, "b2c", "status", NO_RECEIPT, "1", "2040", polled="1"),
    "M-Pesa tax": Column(MPESA, TAX, "tax", "status", NO_RECEIPT, "1", polled="1"),
    "MTN in": Column(MTN, PAYIN, "requesttopay", "ask", NO_RESOURCE, FUNDS, "PAYER_NOT_FOUND"),
    "MTN out": Column(MTN, PAYOUT, "transfer", "ask", NO_RESOURCE, FUNDS, "PAYEE_NOT_FOUND"),
    "Airtel in": Column(
        AIRTEL,
        PAYIN,
        "collection",
        "collection_enquiry",
        NO_TRANSACTION,
        "DP00800001007",
        polled="DP00800001005",
    ),
    "Airtel out": Column(
        AIRTEL,
        PAYOUT,
        "disbursement",
        "disbursement_enquiry",
        NO_TRANSACTION,
        "DP00900001007",
        "DP00900001009",
    ),
    "pawaPay in": Column(
        PAWAPAY,
        PAYIN,
        "deposit",
        "ask",
        NO_PAYMENT,
        "INSUFFICIENT_BALANCE",
        "PAYER_NOT_FOUND",
    ),
    "pawaPay, page": Column(
        OPERATORS["pawapay, page"],
        Operation.WEB_PAYIN,
        "deposit",
        "ask",
        NO_PAYMENT,
        "INSUFFICIENT_BALANCE",
        "PAYER_NOT_FOUND",
    ),
    "pawaPay, code": Column(
        OPERATORS["pawapay, code"],
        Operation.WEB_PAYIN,
        "deposit",
        "ask",
        NO_PAYMENT,
        "INSUFFICIENT_BALANCE",
        "PAYER_NOT_FOUND",
    ),
    "pawaPay out": Column(
        PAWAPAY,
        PAYOUT,
        "payout",
        "ask",
        NO_PAYMENT,
        "PAWAPAY_WALLET_OUT_OF_FUNDS",
        "RECIPIENT_NOT_FOUND",
    ),
}


def _first(*faults: Fault) -> Callable[[Column], Script | None]:
    return lambda column: Script({column.submission: faults})


def _answered(status: int, body: bytes = b"<html>Oops") -> Callable[[Column], Script | None]:
    return _first(AnswerInstead(HttpResponse(status, (), body)), SOON)


BETWEEN_ROWS = "; "
"""Stands between the names of rows that share a line of the page."""
ROWS: Mapping[str, Callable[[Column], Script | None]] = {
    "nothing goes wrong": _first(SOON),
    "request lost": _first(LoseRequest(), SOON),
    "answer lost, callback comes": _first(LoseAnswer(), SOON),
    "answer and callback lost": _first(LoseAnswer(), SOON, NO_CALLBACK),
    "5xx, maintenance": _answered(503),
    "429": _answered(429),
    "HTML 200": _answered(200),
    "HTML 403": _answered(403),
    "callback never": _first(SOON, NO_CALLBACK),
    "callback twice": _first(SOON, CallBack((Span(0), Span(MINUTE)))),
    "callback paid, questions say failed": lambda column: (
        Script({column.submission: (SOON, PollWith(column.polled))}) if column.polled else None
    ),
    "callback paid, questions unanswered": lambda column: Script(
        {column.submission: (SOON,)}, always={column.question: AnswerInstead(HttpResponse(503))}
    ),
    "callback paid, no role to ask": lambda column: (
        Script({column.submission: (SOON,)}, refused={"roles": ["b2c", "tax"]})
        if column.submission in ("b2c", "tax")
        else None
    ),
    "success after the expiry": _first(EndAfter(Span(3 * DAY + HOUR))),
    "password expired": lambda column: _refusal(column, "expired"),
    "API operator locked": lambda column: _refusal(column, "locked"),
    "funds short": lambda column: Script({column.submission: (EndWith(column.short), SOON)}),
    "wrong number": lambda column: (
        Script({column.submission: (EndWith(column.wrong_number), SOON)})
        if column.wrong_number
        else None
    ),
    "failed, and questions find nothing": lambda column: Script(
        {column.submission: (EndWith(column.short), SOON)},
        always={column.question: column.not_found},
    ),
    "accepted, then not found": lambda column: Script(
        {column.submission: (SOON, NO_CALLBACK)}, always={column.question: column.not_found}
    ),
}
"""What can happen, by its name; None: it can't happen there."""


def _refusal(column: Column, state: str) -> Script | None:
    if column.submission not in ("b2c", "tax"):
        return None
    return Script({column.submission: (SOON,)}, refused={"operator_state": state})


def play_cell(row: str, column: str) -> Course | None:
    """Return the course of this cell at its end; None where it can't happen."""
    where = COLUMNS[column]
    script = ROWS[row](where)
    return None if script is None else play(where.operator, where.operation, script)


OPERATORS_OWN_WORD: Mapping[str, Sequence[str]] = {
    "accepted, then not found": ("MTN in", "MTN out")
}
"""Where a paid payment is told as failed because the operator has said so for a day (its page on
common errors)."""


def is_told_wrong(row: str, column: str, course: Course) -> bool:
    """Tell whether a paid payment is told as failed, and no entry of the suspense book says so,
    though there was a way to know."""
    progress = course.payment.progress
    is_expired = progress.error_code is ErrorCode.TRANSACTION_EXPIRED
    if not course.is_paid or progress.stage is Stage.SUCCEEDED or is_expired or course.suspense:
        return False
    return column not in OPERATORS_OWN_WORD.get(row, ())


def cell_text(course: Course | None) -> str:
    """Return what the table says of a course of events."""
    if course is None:
        return "–"
    progress = course.payment.progress
    if progress.error_code is ErrorCode.TRANSACTION_EXPIRED:
        return "expires, suspense book" if course.suspense else "expires"
    told = "✓" if progress.stage is Stage.SUCCEEDED else f"`{progress.error_code}`"
    minutes = -(-course.ended_after // MINUTE)
    if minutes > 1:
        told += f" {minutes} min" if minutes <= 60 else f" {-(-minutes // 60)} h"
    return told


def table(cells: Mapping[tuple[str, str], str]) -> str:
    """Return the table of these texts by row and column, as Markdown: a line for all rows that have
    the same."""
    lines = [f"| | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    alike = names_by_cells(
        (row, " | ".join(cells[row, column] for column in COLUMNS)) for row in ROWS
    )
    lines += [f"| {BETWEEN_ROWS.join(rows)} | {line} |" for line, rows in alike.items()]
    return "\n".join(lines) + "\n"
