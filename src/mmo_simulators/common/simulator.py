"""Defines what an operator's simulator is, and what each has: items that fall due, rows of its
book.

A simulator never waits and reads no clock: it is given requests and instants, and returns responses
and callbacks. `mmo_simulators.server` puts it on a socket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.money import Money
from mmo_simulators.common.faults import DroppedConnection, FaultScript

ItemT = TypeVar("ItemT")


@define
class DueQueue(Generic[ItemT]):
    """Holds items until they are due, in the order of their times."""

    # With a count, so that items of one time keep their order and are never compared.
    _heap: list[tuple[Instant, int, ItemT]] = Factory(list)
    _count: int = 0

    def schedule(self, item: ItemT, *, at: Instant) -> None:
        """Add an item that is due then."""
        self._count += 1
        heappush(self._heap, (at, self._count, item))

    def take_due(self, *, now: Instant) -> Iterator[tuple[Instant, ItemT]]:
        """Remove and yield what is due, with its time, also what is scheduled meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            at, _, item = heappop(self._heap)
            yield at, item

    def next_due_at(self) -> Instant | None:
        """Return when the next item is due; None when there is none."""
        if self._heap:
            return self._heap[0][0]
        return None


def earliest(*instants: Instant | None) -> Instant | None:
    """Return the first of these instants; None when all are None."""
    return min((instant for instant in instants if instant is not None), default=None)


class Simulator(Protocol):
    """Simulates an operator: responds to requests and calls back."""

    @property
    def faults(self) -> FaultScript:
        """Return the script that it follows."""
        ...

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API, whose target is in origin-form or
        absolute-form. Never raises for a bad request."""
        ...

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now, in absolute form; each is returned once."""
        ...

    def next_due_at(self) -> Instant | None:
        """Return when to call `take_due_callbacks` again; None while nothing is scheduled."""
        ...

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        """Take the gateway's response to a callback, or None when there was none."""
        ...

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open these accounts, or change those that exist. Raises ValueError for an invalid one."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """Return everything it did, as JSON: `{"accounts": [account_row, ...], "payments":
        [payment_row, ...]}`.

        Amounts are text such as `150.00`; `reference` is the gateway's name of the payment;
        `receipt` is the operator's own number; `result` is null, `success` or the native code; the
        last member counts the callbacks."""
        ...


def account_row(account: str, balance: Money) -> dict[str, str]:
    """Return an account as `Simulator.snapshot` shows it."""
    return {"account": account, "currency": balance.currency, "balance": balance.text}


def payment_row(
    kind: str,
    reference: str,
    receipt: str | None,
    account: str,
    amount: Money,
    result: str | None,
    callback_count: int,
) -> dict[str, Any]:
    """Return a payment as `Simulator.snapshot` shows it."""
    return {
        "kind": kind,
        "reference": reference,
        "receipt": receipt,
        "account": account,
        "amount": amount.text,
        "currency": amount.currency,
        "result": result,
        "told": callback_count,
    }
