"""Simulates a database server that several processes share: it outlives them, and what they have
sent goes on without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import outcome
import trio
from attrs import Factory, define, field

from mmo_sansio.messages.queries import Records
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import SECOND, Instant, MonotonicInstant, Span, later
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.net_effect import NetEffect, net_effect
from tests.simulation.stores.faults import NO_FAULTS, FaultDraws, StoreFaults
from tests.simulation.stores.machine import StoreCall, StoreMachine, tick_after
from tests.simulation.stores.shared_rows import SharedRows
from tests.simulation.stores.transactions import (
    IDLE_SESSION_S,
    ServerTransaction,
    TransactionStage,
    keys_of,
)

T = TypeVar("T")

CONNECT_TIMEOUT_S = 3.0
"""Seconds after which a process gives up a connection to a server that does not answer."""

_POLL_INTERVAL_MIN_S, _POLL_INTERVAL_MAX_S = 0.002, 0.1
"""The pauses of a reader of records that waits for writers, as those of
`storage.postgres.shared_locks`."""


class ConnectionLost(Exception):
    """The server, or the way to it, was lost: the statement may have been done."""


class StatementRefused(Exception):
    """The server has done nothing of the statement."""


class CommitConflict(Exception):
    """Another transaction was quicker, and nothing was stored."""


Begin: TypeAlias = Callable[[StoreCall[T]], None]
"""Does a statement at the server, and replies to the call then or later."""


@define(eq=False)
class SimulatedServer:
    """Holds what is stored, and the transactions in progress.

    Its processes use it through :class:`tests.simulation.stores.shared_store.SimulatedSharedStore`.
    `machine.run` must run as long as it is used."""

    draws: FaultDraws
    epoch: Instant
    """The true time at which Trio's clock shows 0."""
    faults: StoreFaults = NO_FAULTS
    """The faults from now on; the world may replace them at any time."""
    is_reachable: Callable[[str], bool] = lambda _: True
    """Tells whether a process, by its name, and the server reach each other now."""
    machine: StoreMachine = Factory(StoreMachine)
    observe: Callable[[Sequence[Decision]], None] = lambda _: None
    """Is told of each batch that is stored."""
    rows: SharedRows = field(init=False)
    horizon: Instant = Instant(0)
    """No commit that isn't visible yet creates anything below it (R7)."""
    clock_offset: Span = Span(0)
    """How far the server's own clock is ahead of true time."""
    _complete_until: Instant = Instant(0)
    """Records up to here are complete."""
    _down_until: float = 0.0
    _still_until: float = 0.0
    _disk_full_until: float = 0.0
    _last_number: int = 0
    _calls: dict[StoreCall[Any], None] = Factory(dict)
    """The calls whose callers wait."""
    _open: dict[int, ServerTransaction] = Factory(dict)
    """The transactions in progress, by their numbers."""
    _committed: dict[int, bool] = Factory(dict)
    """Whether a transaction that has ended was committed; what is false here never will be."""

    def __attrs_post_init__(self) -> None:
        self.rows = SharedRows(self.clock, self.wall)

    def clock(self) -> MonotonicInstant:
        """Return the time of the server's own clock, by which leases last."""
        return later(MonotonicInstant(round(trio.current_time() * SECOND)), self.clock_offset)

    def wall(self) -> Instant:
        """Return the wall time of the server's own clock."""
        return later(self.epoch, Span(self.clock()))

    # Calls of processes

    def answers(self, process: str) -> bool:
        """Tell whether the server is up and this process reaches it."""
        return trio.current_time() >= self._down_until and self.is_reachable(process)

    async def call(
        self,
        process: str,
        name: str,
        deadline: float,
        begin: Begin[T],
        *,
        is_shielded: bool = False,
    ) -> T:
        """Send a statement and return its result; raises ConnectionLost also at the deadline, by
        Trio's clock. See `StoreCall.result` for `is_shielded`.

        Raises StatementRefused, CommitConflict and what the statement itself raises."""
        call: StoreCall[T] = StoreCall(process, name, deadline)
        if (
            self.faults.are_instant
            and trio.current_time() >= self._still_until
            and self.answers(process)
        ):
            await trio.lowlevel.cancel_shielded_checkpoint()
            begin(call)
        else:
            self._send(call, begin)
        if not call.is_answered:
            self._calls[call] = None
        try:
            return await call.result(is_shielded=is_shielded)
        finally:
            self._calls.pop(call, None)

    def _send(self, call: StoreCall[T], begin: Begin[T]) -> None:
        faults, draws = self.faults, self.draws
        delay_s = draws.time_s(faults.latency_s)
        if faults.lost_before and draws.happens(
            "lost_before", faults.lost_before, process=call.process, statement=call.name
        ):
            self._answer_after(
                call, delay_s, outcome.Error(ConnectionLost("before the statement arrived"))
            )
            return
        if faults.late and draws.happens(
            "late", faults.late, process=call.process, statement=call.name
        ):
            delay_s += draws.time_s(faults.late_s)
            self._answer_at_deadline(call)
        call.carry = self._carry
        self.machine.after(delay_s, partial(self._arrive, call, begin))

    def _arrive(self, call: StoreCall[T], begin: Begin[T]) -> None:
        if call.is_dropped:
            return
        now, faults = trio.current_time(), self.faults
        if not self.is_reachable(call.process):
            self._answer_after(
                call, CONNECT_TIMEOUT_S, outcome.Error(ConnectionLost("nobody answers"))
            )
        elif now < self._down_until:
            self._answer_after(call, 0.0, outcome.Error(ConnectionLost("the server is down")))
        elif (left_s := self._still_until - now) > 0:
            self._answer_at_deadline(call)
            self.machine.after(left_s, partial(self._arrive, call, begin))
        elif faults.refused and self.draws.happens(
            "refused", faults.refused, process=call.process, statement=call.name
        ):
            call.reply(outcome.Error(StatementRefused("the server could not do it")))
        else:
            begin(call)

    def _carry(self, call: StoreCall[T], result: outcome.Outcome[T]) -> None:
        """Bring the reply to the caller."""
        draws, faults = self.draws, self.faults
        if faults.lost_after and draws.happens(
            "lost_after", faults.lost_after, process=call.process, statement=call.name
        ):
            result = outcome.Error(ConnectionLost("before the reply arrived"))
        if self.is_reachable(call.process):
            self._answer_after(call, draws.time_s(faults.latency_s), result)
        else:
            self._answer_at_deadline(call)

    def _answer_after(self, call: StoreCall[T], delay_s: float, result: outcome.Outcome[T]) -> None:
        if trio.current_time() + delay_s > call.deadline:
            self._answer_at_deadline(call)
        else:
            self.machine.run_at(tick_after(delay_s), partial(call.answer, result))

    def _answer_at_deadline(self, call: StoreCall[T]) -> None:
        """Let the caller give up when its time is over, unless it is answered before."""
        left_s = max(0.0, call.deadline - trio.current_time())
        self.machine.after(
            left_s, partial(call.answer, outcome.Error(ConnectionLost("no reply came in time")))
        )

    # Statements

    def do(self, call: StoreCall[T], statement: Callable[[], T]) -> None:
        """Do a statement that is a transaction of its own."""
        self.draws.trace("store_statement", process=call.process, statement=call.name)
        call.reply(outcome.capture(statement))

    def write(
        self, transaction: ServerTransaction, statement: Callable[[], T], call: StoreCall[T]
    ) -> None:
        """Do a statement in a transaction whose outcome `resolve` tells. Nothing is committed for a
        caller that has given up: it sends COMMIT only once it has the statement's result."""
        if call.is_answered or self._committed.get(transaction.number) is False:
            call.reply(outcome.Error(ConnectionLost("the server has ended the session")))
        elif trio.current_time() < self._disk_full_until:
            call.reply(outcome.Error(StatementRefused("the disk is full")))
        else:
            self._committed[transaction.number] = True
            self.do(call, statement)

    def wait_for_commits(self, call: StoreCall[None]) -> None:
        """Reply once the commits in progress have ended."""
        self._reply_after(list(self._open.values()), call)

    def _reply_after(self, awaited: Sequence[ServerTransaction], call: StoreCall[None]) -> None:
        left = [each for each in awaited if each.stage is TransactionStage.COMMITTING]
        if left:
            self._answer_at_deadline(call)
            left[0].at_end.append(partial(self._reply_after, left, call))
        else:
            call.reply(outcome.Value(None))

    def begin_transaction(self, process: str, holder: int, *, is_writer: bool) -> ServerTransaction:
        """Begin a transaction; with `is_writer` readers of records wait for its end from now on."""
        self._last_number += 1
        return ServerTransaction(
            self._last_number,
            process,
            holder,
            trio.current_time() + IDLE_SESSION_S,
            is_writer=is_writer,
        )

    def load(self, transaction: ServerTransaction, reads: Reads) -> Ledger:
        """Return the working set of a batch."""
        if transaction.stage is not TransactionStage.OPEN:
            raise ConnectionLost("the session has ended")
        self._end_idle_sessions()
        ledger = transaction.load(self.rows, reads)
        ledger.not_before = self.horizon
        self._open[transaction.number] = transaction
        transaction.idle_until = trio.current_time() + IDLE_SESSION_S
        return ledger

    def roll_back(self, transaction: ServerTransaction) -> None:
        """End a transaction without a commit."""
        self._end(transaction, TransactionStage.VOID)

    def commit(
        self,
        transaction: ServerTransaction,
        decisions: Sequence[Decision],
        call: StoreCall[Sequence[Decision]],
    ) -> None:
        """Write a batch, and reply once it is durable; it waits for commits that write the same
        rows."""
        self._end_idle_sessions()
        if transaction.stage is not TransactionStage.OPEN:
            call.reply(outcome.Error(ConnectionLost("the server has ended the session")))
            return
        effect = net_effect(decisions)
        if effect.is_empty:
            self.roll_back(transaction)
            call.reply(outcome.Value(decisions))
            return
        keys = keys_of(effect)
        for other in self._open.values():
            if other.stage is TransactionStage.COMMITTING and not keys.isdisjoint(other.keys):
                transaction.idle_until = call.deadline
                other.at_end.append(partial(self.commit, transaction, decisions, call))
                self._answer_at_deadline(call)
                return
        if refusal := self._refusal(transaction, effect):
            self.roll_back(transaction)
            call.reply(outcome.Error(refusal))
            return
        transaction.decisions = decisions
        self._begin_commit(transaction, effect, keys)
        pause_s = self.draws.time_s(self.faults.commit_s)
        if self.draws.happens("stall", self.faults.stall, process=transaction.process):
            pause_s += self.draws.time_s(self.faults.stall_s)
        if pause_s:
            if trio.current_time() + pause_s > call.deadline:
                self._answer_at_deadline(call)
            self.machine.after(pause_s, partial(self._finish_commit, transaction, call))
        else:
            self._finish_commit(transaction, call)

    def _refusal(self, transaction: ServerTransaction, effect: NetEffect) -> Exception | None:
        """Return why the batch can't be committed, if it can't."""
        if trio.current_time() < self._disk_full_until:
            return StatementRefused("the disk is full")
        if self.draws.happens("conflict", self.faults.conflict, process=transaction.process):
            return CommitConflict("another transaction was quicker")
        if found := transaction.conflict(self.rows, effect, self.horizon):
            self.draws.trace("store_conflict", process=transaction.process, about=found)
            return CommitConflict(f"another transaction was quicker: {found}")
        return None

    def _begin_commit(
        self, transaction: ServerTransaction, effect: NetEffect, keys: frozenset[object]
    ) -> None:
        transaction.stage = TransactionStage.COMMITTING
        transaction.is_writer = transaction.is_writer or bool(effect.created)
        transaction.keys, transaction.concluded = keys, frozenset(effect.concluded)
        self.rows.locked_intents |= transaction.concluded
        self._open[transaction.number] = transaction

    def _finish_commit(
        self, transaction: ServerTransaction, call: StoreCall[Sequence[Decision]]
    ) -> None:
        if (left_s := self._still_until - trio.current_time()) > 0:
            self._answer_at_deadline(call)
            self.machine.after(left_s, partial(self._finish_commit, transaction, call))
        elif transaction.stage is TransactionStage.COMMITTING:
            self._apply(transaction)
            call.reply(outcome.Value(transaction.decisions))

    def _apply(self, transaction: ServerTransaction) -> None:
        self.rows.write(net_effect(transaction.decisions), transaction.holder)
        self.observe(transaction.decisions)
        self.draws.trace("store_commit", process=transaction.process, number=transaction.number)
        self._end(transaction, TransactionStage.COMMITTED)

    def list_records(
        self, end: Instant, read: Callable[[], Records], call: StoreCall[Records]
    ) -> None:
        """Reply with a page of records up to `end`, once no commit can add any to them (R7)."""
        self._end_idle_sessions()
        if end <= self._complete_until:
            self.do(call, read)
            return
        self.horizon = max(self.horizon, min(end, self.wall()))
        awaited = [each for each in self._open.values() if each.is_writer]
        if awaited:
            self._answer_at_deadline(call)
        self._read_after(awaited, self.horizon, read, call, _POLL_INTERVAL_MIN_S)

    def _read_after(
        self,
        awaited: Sequence[ServerTransaction],
        complete_until: Instant,
        read: Callable[[], Records],
        call: StoreCall[Records],
        pause_s: float,
    ) -> None:
        """Read once these writers have ended."""
        self._end_idle_sessions()
        left = [
            each
            for each in awaited
            if each.stage in (TransactionStage.OPEN, TransactionStage.COMMITTING)
        ]
        if not left:
            self._complete_until = max(self._complete_until, complete_until)
            self.do(call, read)
        elif not call.is_answered:
            longer_s = min(2 * pause_s, _POLL_INTERVAL_MAX_S)
            self.machine.after(
                pause_s, partial(self._read_after, left, complete_until, read, call, longer_s)
            )

    def release_horizon(self, now: Instant) -> None:
        """Let new payments be dated from now on."""
        self.horizon, self._complete_until = min(self.horizon, now), min(self._complete_until, now)

    def resolve(self, number: int, call: StoreCall[bool]) -> None:
        """Reply whether this transaction was committed, once that is certain: what has not begun
        never will be."""
        transaction = self._open.get(number)
        if transaction is not None and transaction.stage is TransactionStage.COMMITTING:
            transaction.at_end.append(partial(self.resolve, number, call))
            self._answer_at_deadline(call)
            return
        if transaction is not None:
            self.roll_back(transaction)
        call.reply(outcome.Value(self._committed.setdefault(number, False)))

    # What befalls the server and its processes

    def kill(self, process: str) -> None:
        """End a process at once, as `kill -9` does: each statement that it has sent arrives or does
        not, and its sessions end now, or when the server notices."""
        for call in [each for each in self._calls if each.process == process]:
            call.is_dropped = self.draws.either()
            call.answer(outcome.Error(StoreUnavailable("the process was killed")))
        for each in list(self._open.values()):
            if (
                each.process == process
                and each.stage is TransactionStage.OPEN
                and self.draws.either()
            ):
                self.roll_back(each)

    def fail_over(self, down_for_s: float, *, clock_step: Span = Span(0)) -> None:
        """Lose the primary. After this time a standby serves, which has all that was acknowledged;
        of what was not, it has what the draws say. Its clock differs by a step."""
        self.draws.note("failover", down_for_s=down_for_s)
        self._down_until = max(self._down_until, trio.current_time() + down_for_s)
        for call in list(self._calls):
            call.is_dropped = True
            self._answer_after(call, 0.0, outcome.Error(ConnectionLost("the primary was lost")))
        for each in list(self._open.values()):
            if each.stage is TransactionStage.COMMITTING and self.draws.either():
                self._apply(each)
            elif each.stage in (TransactionStage.OPEN, TransactionStage.COMMITTING):
                self.roll_back(each)
        self.clock_offset = Span(self.clock_offset + clock_step)

    def stand_still(self, for_s: float) -> None:
        """Do nothing for this time, as a server that is paused, or whose disk or standby hangs."""
        self.draws.note("standstill", for_s=for_s)
        self._still_until = max(self._still_until, trio.current_time() + for_s)

    def fill_disk(self, for_s: float) -> None:
        """Refuse commits for this time; what is read is read."""
        self.draws.note("disk_full", for_s=for_s)
        self._disk_full_until = max(self._disk_full_until, trio.current_time() + for_s)

    def _end(self, transaction: ServerTransaction, stage: TransactionStage) -> None:
        transaction.stage = stage
        self._open.pop(transaction.number, None)
        self._committed[transaction.number] = stage is TransactionStage.COMMITTED
        self.rows.locked_intents -= transaction.concluded
        waiting, transaction.at_end = transaction.at_end, []
        for action in waiting:
            action()

    def _end_idle_sessions(self) -> None:
        now = trio.current_time()
        for each in list(self._open.values()):
            if each.stage is TransactionStage.OPEN and each.is_writer and each.idle_until <= now:
                self.draws.note("idle_session_ended", process=each.process)
                self.roll_back(each)
