"""Measures `decide` alone: the cost of each kind of input in the core, without store or socket."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping

from bench import machine
from bench.options import Options
from bench.report import Outcome, Table
from mmo_sansio import testing as t
from mmo_sansio.messages.inputs import Input, UnmatchedNotified
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import Stage

TIMES = 2_000
NOW: Instant = later(t.START, clock.MINUTE)
EXPIRED: Instant = later(t.START, Span(4 * clock.DAY))

Case = tuple[Ledger, Input, Instant]


def cases() -> Mapping[str, Case]:
    """Return each kind of input with a ledger that it changes."""
    empty = t.ledger_with()

    def at(stage: Stage) -> Ledger:
        return t.ledger_with(t.a_transaction(stage))

    waits = at(Stage.AWAITING_RESULT)
    return {
        "CreatePayment": (empty, t.a_create_payment(), NOW),
        "CreatePayment, reference in use: refused": (
            at(Stage.SUCCEEDED),
            t.a_create_payment(t.UNUSED_REFERENCE),
            NOW,
        ),
        "ConfirmPage": (at(Stage.AWAITING_CUSTOMER), t.a_confirmation(), NOW),
        "BeginSubmission": (at(Stage.CREATED), t.a_begin_submission(), NOW),
        "ProviderAccepted": (at(Stage.SUBMITTING), t.accepted(), NOW),
        "ProviderSucceeded": (waits, t.succeeded(), NOW),
        "ProviderFailed": (waits, t.failed(), NOW),
        "ProviderUnreachable": (at(Stage.SUBMITTING), t.unreachable(), NOW),
        "ProviderNeverReceived": (at(Stage.SUBMITTING), t.never_received(), NOW),
        "ResolveManually": (waits, t.a_resolution(), NOW),
        "DepositNotified": (empty, t.a_deposit(), NOW),
        "UnmatchedNotified": (empty, UnmatchedNotified("test", '{"what":"unknown"}'), NOW),
        "TransactionWoke, to ask": (waits, t.a_wake(), NOW),
        "TransactionWoke, expired": (waits, t.a_wake(), EXPIRED),
        "CallbackConcluded": (at(Stage.SUCCEEDED), t.callback_concluded(), NOW),
        "ProviderSucceeded, too late: suspense": (at(Stage.FAILED), t.succeeded(), NOW),
    }


def run(options: Options) -> Outcome:
    """Return medians over rounds of all kinds."""
    machine.pin(os.getpid(), machine.SERVER_CORE)
    arguments = cases()
    seen: dict[str, list[float]] = {name: [] for name in arguments}
    for _ in range(max(5, options.rounds)):
        for name, (ledger, what, now) in arguments.items():
            begin = time.process_time()
            for _ in range(TIMES):
                reads(what)
                decide(ledger, what, now=now)
            seen[name].append((time.process_time() - begin) / TIMES * 1e6)
    machine.pin(os.getpid(), machine.LOAD_CORE)
    rows = [[name, f"{statistics.median(each):.1f}"] for name, each in seen.items()]
    table = Table(
        "processor time of `reads` and `decide` for one input, medians",
        ("input", "µs"),
        rows,
        "building frozen values; nothing waits, nothing is looked up outside a dictionary.",
    )
    return Outcome(
        "decide",
        "Deciding",
        f"The core by itself, {TIMES:,} times each in every round, on a ledger with one "
        f"transaction.",
        [table],
    )
