"""Knows what other pay-rolls have paid, by their journals in a folder and by the gateway's records,
and what of it a new one would pay once more.

A line is told from others by its merchantReference, which a column has, or which is made of the
pay-roll's name and the line's key. The next try of a line that has failed has the same one with
`-try2` behind it, then `-try3`. To pay one reference twice is the gateway's to refuse (C12), while
it knows the reference; looked for here is what would be paid twice under two references, and what
the gateway does not know any more, or not by this key."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from mmo_merchant.payroll.journal import SUFFIX, Phase
from mmo_merchant.payroll.pay_roll import PayLine, earlier_try, first_try
from mmo_merchant.tables.faults import name_lines

# The same number is rarely meant to get the same amount again within this time; wages are paid by
# the week, if not by the month.
RECENT: Final = timedelta(days=6)

# Stands for a journal where the gateway tells of a payment.
RECORDS: Final = "the gateway's records"

_NOT_PAID: Final = (Phase.FAILED, Phase.REJECTED)

# By its journal a creation may have left under the line's own reference, and nothing has proved
# that nobody was paid by it.
_SENT: Final = (Phase.SENT, Phase.ACCEPTED, Phase.SUCCESS, Phase.UNPROVED)


@frozen
class EarlierLine:
    """Is a line of another journal, or a payment of the records."""

    journal: str
    """The name of its file, or `RECORDS`."""
    name: str
    """That of its pay-roll."""
    reference: str
    payee: str
    """Digests who was to be paid how much."""
    phase: Phase | None
    """None: it was not sent, by its journal."""
    at: datetime
    """When it ended, or its journal began."""

    @property
    def is_paid(self) -> bool:
        """Whether the payee has the money."""
        return self.phase is Phase.SUCCESS

    @property
    def may_be_paid(self) -> bool:
        """Whether the payee has the money, or may get it."""
        return self.phase not in _NOT_PAID

    @property
    def failed_file(self) -> str:
        """Names the file in which the line can be mended and paid, once it has failed."""
        if self.journal == RECORDS:
            return "the .failed.csv of that pay-roll"
        return f"{self.journal.removesuffix(SUFFIX)}.failed.csv"


def read_journals(folder: Path, *, gateway: str, besides: Path | None = None) -> list[EarlierLine]:
    """Return the lines of all journals in a folder that are about a gateway; an empty text stands
    for any. Raises OSError."""
    return [
        line
        for path in sorted(folder.glob(f"*{SUFFIX}"))
        if path != besides
        for line in read_journal(path, gateway=gateway)
    ]


def read_journal(path: Path, *, gateway: str = "") -> Iterator[EarlierLine]:
    """Yield the lines of a journal; none for another kind of file. What can't be read of it may
    have been paid. Raises OSError."""
    # An empty file is that of a program that died as it made it: it has sent nothing.
    begun, *entries = path.read_bytes().splitlines() or [b""]
    head = _members(begun)
    try:
        name = head["name"]
        lines = head["lines"]
        begun_at = datetime.fromisoformat(head["begun_at"])
        if gateway not in ("", head["gateway"]):
            return

        # The last state of a line counts, as entries are only added.
        states = {
            entry["reference"]: entry for entry in map(_members, entries) if "reference" in entry
        }
        for _, reference, _, payee in lines:
            phase, ended_at = _state(states.get(reference, {}))
            at = ended_at or begun_at
            yield EarlierLine(path.name, name, reference, payee, phase, at)
    except (KeyError, TypeError, ValueError):
        return


def _members(text: bytes) -> dict[str, Any]:
    # The last entry may have been written in part, as the program died.
    try:
        members = json.loads(text)
    except ValueError:
        return {}
    if isinstance(members, dict):
        return members
    return {}


def _state(members: Mapping[str, Any]) -> tuple[Phase | None, datetime | None]:
    try:
        phase = Phase(members["phase"])
        text = members.get("completed_at") or members.get("created_at")
        if not text:
            return phase, None
        return phase, datetime.fromisoformat(text)
    except (KeyError, TypeError, ValueError):
        # A newer version's phase, or a damaged entry: it may have been paid.
        return None, None


def tell_paid(lines: Sequence[PayLine], earlier: Sequence[EarlierLine]) -> list[str]:
    """Return a sentence for each journal that has paid some of these lines."""
    # Amount and number too: who changed a line has not paid it.
    keys = {(line.payment.merchant_reference, line.payee) for line in lines}
    paid = [line for line in earlier if line.is_paid and (line.reference, line.payee) in keys]
    counts = Counter(line.journal for line in paid)
    return [
        f"{count} of {len(lines)} lines were paid {_tell_days(paid, journal)}, by {journal}."
        for journal, count in counts.items()
    ]


def _tell_days(paid: Sequence[EarlierLine], journal: str) -> str:
    days = sorted({line.at.date() for line in paid if line.journal == journal})
    if len(days) == 1:
        return f"on {days[0]}"
    return f"from {days[0]} to {days[-1]}"


def find_news(earlier: Sequence[EarlierLine], recorded: Sequence[EarlierLine]) -> list[EarlierLine]:
    """Return what the records tell beside the journals: payments that these lack, and those that
    have failed by one of them and not by the other, as under a reference that was used again
    (C12)."""
    journalled = {(line.reference, line.may_be_paid) for line in earlier}
    return [line for line in recorded if (line.reference, line.may_be_paid) not in journalled]


def find_unknown(
    lines: Sequence[PayLine], earlier: Sequence[EarlierLine], recorded: Sequence[EarlierLine]
) -> list[str]:
    """Return, in sentences, what journals have sent and the gateway's records lack: the gateway
    takes such a reference for a new one, where the key is another brand's, or where its store is
    an older copy."""
    known = {line.reference for line in recorded}
    sent = {
        (line.reference, line.payee): line.journal
        for line in earlier
        if line.phase in _SENT and line.reference not in known
    }

    doubtful = _Sentences()
    for line in lines:
        journal = sent.get((line.payment.merchant_reference, line.payee))
        if journal is not None:
            what = (
                f"paid by {journal}, or may be, and the gateway's records of the last weeks lack "
                "it: the API key may be another brand's"
            )
            doubtful.add(what, line)

    return doubtful.tell()


def find_repeats(
    name: str, lines: Sequence[PayLine], earlier: Sequence[EarlierLine]
) -> tuple[list[str], list[str]]:
    """Return what must not be paid, and what may be meant all the same, in sentences. That a
    line's own reference is known with the same payee is no reason for either: the gateway judges
    that, where it knows the reference (`find_unknown`)."""
    by_reference = dict[str, list[EarlierLine]]()
    for earlier_line in earlier:
        by_reference.setdefault(earlier_line.reference, []).append(earlier_line)

    forbidden = _Sentences()
    doubtful = _Sentences()
    recent = datetime.now(UTC) - RECENT
    paid_lately = {line.payee: line for line in earlier if line.may_be_paid and line.at >= recent}
    own = {first_try(line.payment.merchant_reference) for line in lines}
    # Who tells of another pay-roll with this name. A journal has all lines of its file. Records
    # have only those that were sent: one of our own shows a copy of this very pay-roll, which is
    # being paid now, and no other one.
    same_name = [
        line.journal
        for line in earlier
        if name and line.name == name
        if line.journal != RECORDS or first_try(line.reference) not in own
    ]

    # The first case that fits a line counts, the most certain one first.
    for line in lines:
        reference = line.payment.merchant_reference

        # Payments under the line's reference, and under the one that must have failed before it.
        known = by_reference.get(reference, [])
        before = by_reference.get(earlier_try(reference) or "", [])
        running = next((known_line for known_line in before if known_line.may_be_paid), None)
        changed = next((known_line for known_line in known if known_line.payee != line.payee), None)

        # 1. It is the next try of a line whose first try may be paid.
        if running is not None and running.phase is Phase.UNPROVED:
            what = (
                f"paid again, and by {running.journal} the first try has failed, which does not "
                "prove that nobody was paid"
            )
            doubtful.add(what, line)
        elif running is not None:
            what = f"paid again, and by {running.journal} the first try may have been paid"
            forbidden.add(what, line)

        # 2. Its reference had another amount or number: the file was corrected.
        elif changed is not None and changed.may_be_paid:
            what = f"not as in {changed.journal}, which has paid another amount or number, or may"
            doubtful.add(what, line)
        elif changed is not None:
            what = (
                f"not as in {changed.journal}, where it has failed: mend and pay "
                f"{changed.failed_file}"
            )
            doubtful.add(what, line)

        # 3. Nothing of it is known, but a pay-roll of this name is: the same people may stand there
        #    under other keys, so under other references.
        elif not known and not before and same_name:
            what = f"new, and the same --name is in {same_name[0]}: it may be the same pay-roll"
            doubtful.add(what, line)

        # 4. Somebody got the same amount some days ago, under any name.
        elif not known and line.payee in paid_lately:
            journal = paid_lately[line.payee].journal
            what = f"about a number that lately got the same amount, or may have, by {journal}"
            doubtful.add(what, line)

    return forbidden.tell(), doubtful.tell()


class _Sentences:
    """Collects what lines have in common."""

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {}

    def add(self, what: str, line: PayLine) -> None:
        self._lines.setdefault(what, []).append(line.number)

    def tell(self) -> list[str]:
        return [
            f"{name_lines(numbers).capitalize()} {'is' if len(numbers) == 1 else 'are'} {what}."
            for what, numbers in self._lines.items()
        ]
