"""Tells staff by a webhook what waits for a person, for teams without Prometheus.

What was told is a note in the store, so of all processes that share it one does each round: the one
whose claim becomes the note. An attempt is on record before it is made, so that a process that dies
costs a message at most and none is forgotten. Nothing waits for it: no payment, and no other part.

A message holds counts, sums, names of providers and links into the console, and nothing about
merchants or payers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import structlog
import trio
from attrs import evolve, frozen

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import Headers, HttpRequest
from mmo_sansio.providers.common.account_check import SIGN_IN
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.resilience import notices
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.resilience.notices import Matter, NoticeKind, NoticeLimits, NoticeRecord, Told
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    Instant,
    Moment,
    Span,
    earlier,
    elapsed,
    format_with_microseconds,
)
from mmo_sansio.values.money import sum_by_currency
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.admin.counted_money import requested_amounts, reversal_amounts
from mmo_trio.http.client.client import HttpClient, tls_context
from mmo_trio.settings import Settings, SettingsError
from mmo_trio.settings.sections import NoticesSection
from mmo_trio.storage.interface.admin_types import (
    STUCK_COUNT_MAX,
    ApprovalKind,
    NoteTopic,
    ProviderNote,
)
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.float_monitor import known_floats

logger = structlog.get_logger(__name__)

# Seconds between two rounds of all processes together, and from a start to the first.
ROUND_S: Final = 60.0

# Seconds between two looks at whether a round is due.
LOOK_S: Final = 20.0

# Seconds that the receiver has; without an answer the message is told again later.
ATTEMPT_TIMEOUT_S: Final = 10.0

CERTIFICATE_TOLD_BEFORE: Final = Span(14 * DAY)

# Characters of the key that the receiver is shown.
KEY_LENGTH_MAX: Final = 1024

# The page of the console that shows each kind.
PAGES: Final[Mapping[NoticeKind, str]] = {
    NoticeKind.AUDIT_LOG_CHANGED: "/audit",
    NoticeKind.STORE_RESTORED: "/brands",
    NoticeKind.ACCOUNT_REFUSED: "/providers",
    NoticeKind.SIGN_IN_FAILS: "/providers",
    NoticeKind.PROVIDER_UNREACHABLE: "/providers",
    NoticeKind.FLOAT_LOW: "/providers",
    NoticeKind.PAYMENTS_STUCK: "/stuck",
    NoticeKind.CALLBACKS_STOPPED: "/breakers",
    NoticeKind.CALLBACKS_NOT_DELIVERED: "/callbacks",
    NoticeKind.CERTIFICATE_EXPIRES: "/",
    NoticeKind.REVERSALS_TO_APPROVE: "/reversals",
    NoticeKind.RESOLUTIONS_TO_APPROVE: "/resolutions",
    NoticeKind.CHANGES_TO_APPROVE: "/configuration",
    NoticeKind.SUSPENSE: "/suspense",
}


@frozen
class NoticeReceiver:
    """Sends messages to the webhook of the settings."""

    section: NoticesSection
    gateway: str
    """The address of the merchant API, by which people tell gateways apart."""
    deliver: Callable[[HttpRequest], Awaitable[DeliveryAttempt]]
    """Makes one attempt to deliver a request, by the rules for what leaves the gateway."""

    @classmethod
    def of(
        cls, settings: Settings, gateway: str, own_hosts: Collection[str] = ()
    ) -> NoticeReceiver | None:
        """Return the receiver of these settings, with a client of its own, so that nothing that
        merchants do has a part in it; None without one. Raises SettingsError."""
        section = settings.notices
        if section.webhook_url is None:
            return None

        # A key that can't be read stops the start, not the first message.
        read_key(section)
        rules = EgressRules(allow_private=section.allow_private, own_hosts=frozenset(own_hosts))
        client = HttpClient(rules=rules, context=tls_context(settings.egress.extra_ca_file))
        return cls(section, gateway, partial(client.deliver, deadline_s=ATTEMPT_TIMEOUT_S))

    async def send(self, text: str, members: Mapping[str, Any], now: Instant) -> DeliveryAttempt:
        """Make one attempt to deliver a message. Raises SettingsError when the key can't be
        read."""
        # The key is read each time: it may be replaced without a restart.
        assert self.section.webhook_url is not None
        key = read_key(self.section)
        body = {
            "id": uuid4().hex,
            "gateway": self.gateway,
            "at": format_with_microseconds(now),
            "text": text,
            **members,
        }
        headers: Headers = ((b"content-type", b"application/json"),)
        if key is not None:
            headers += ((b"authorization", b"Bearer " + key),)

        target = self.section.webhook_url.encode()
        content = json.dumps(body, ensure_ascii=False).encode()
        request = HttpRequest("POST", target, headers, body=content)
        return await self.deliver(request)


def read_key(section: NoticesSection) -> bytes | None:
    """Return the key that the receiver is shown; None where there is none. Raises SettingsError."""
    file = section.webhook_key_file
    if file is None:
        return None

    remedy = "Name a file with one line of ASCII letters, digits and signs."
    try:
        key = Path(file).read_bytes().strip()
    except OSError as error:
        fault = f"{file} can't be read: {error.strerror}."
        raise SettingsError("notices.webhook_key_file", fault, remedy) from None

    if not 0 < len(key) <= KEY_LENGTH_MAX or not all(0x21 <= octet <= 0x7E for octet in key):
        fault = f"{file} holds no key."
        raise SettingsError("notices.webhook_key_file", fault, remedy)

    return key


@frozen
class WaitingMatters:
    """Finds what waits for a person: in the store, and in this process."""

    store: Store
    providers: Collection[str]
    findings: Callable[[], Sequence[AccountFinding]]
    """Returns what is known of the accounts with operators."""
    provider_breakers: Callable[[], Mapping[str, BreakerState]]
    """Returns the state of this process's breaker for each operator."""
    certificate_expires_at: Callable[[], Instant | None]
    failed_callbacks: int
    """How many callbacks of an hour have to fail before that is told."""
    moves_no_money: bool = False
    """Whether no account moves money: then simulated payments are all that there is."""

    async def find(self, now: Moment) -> Sequence[Matter]:
        """Return what waits now. Raises what the store raises."""
        found = [
            *await self._of_payments(now.time),
            *await self._of_callbacks(now.utc),
            *await self._of_providers(now.time),
            *await self._of_store(now.utc),
        ]
        return [matter for matter in found if matter.count]

    async def _of_payments(self, now: Instant) -> Sequence[Matter]:
        admin, kinds = self.store.admin, NoticeKind
        backlog = await admin.backlog(now, overdue_before=now)
        stuck = await admin.stuck_transactions(now, limit=STUCK_COUNT_MAX)

        # Unfinished ones are few; only those wait for a person that nobody has approved.
        reversals = [
            reversal
            for reversal in await self.store.list_reversals(
                only_unfinished=True, limit=STUCK_COUNT_MAX
            )
            if reversal.state is ReversalState.REQUESTED
        ]
        given_back = await self.store.transactions([reversal.payment for reversal in reversals])
        approvals = backlog.approvals
        return [
            Matter(
                kinds.PAYMENTS_STUCK,
                len(stuck),
                sum_by_currency(requested_amounts(stuck, moves_no_money=self.moves_no_money)),
            ),
            Matter(
                kinds.REVERSALS_TO_APPROVE,
                len(reversals),
                sum_by_currency(
                    reversal_amounts(reversals, given_back, moves_no_money=self.moves_no_money)
                ),
            ),
            Matter(kinds.RESOLUTIONS_TO_APPROVE, approvals[ApprovalKind.RESOLUTION]),
            Matter(kinds.CHANGES_TO_APPROVE, approvals[ApprovalKind.CONFIGURATION]),
            Matter(kinds.SUSPENSE, backlog.suspense),
        ]

    async def _of_callbacks(self, now: Instant) -> Iterable[Matter]:
        breakers = await self.store.breakers()
        stopped = sum(breaker.state is not BreakerState.CLOSED for breaker in breakers.values())
        newest = await self.store.admin.failed_callbacks(limit=STUCK_COUNT_MAX)
        failed = sum(elapsed(callback.at, now) < HOUR for _, callback in newest)

        # A few are the merchants' own matter, and no person's of the gateway.
        counted = 0
        if failed >= self.failed_callbacks:
            counted = failed

        return [
            Matter(NoticeKind.CALLBACKS_STOPPED, stopped),
            Matter(NoticeKind.CALLBACKS_NOT_DELIVERED, counted),
        ]

    async def _of_providers(self, now: Instant) -> Iterable[Matter]:
        findings = self.findings()
        refused = [
            finding.provider for finding in findings if finding.state is AccountState.REFUSED
        ]
        without_token = [
            finding.provider
            for finding in findings
            if finding.part == SIGN_IN and finding.state is AccountState.UNKNOWN
        ]
        breakers = self.provider_breakers().items()
        unreachable = [name for name, state in breakers if state is not BreakerState.CLOSED]
        floats = await known_floats(self.store.admin, self.providers, now)
        low = [watched.forecast.latest.provider for watched in floats if watched.is_low]
        return [
            _about(NoticeKind.ACCOUNT_REFUSED, refused),
            _about(NoticeKind.SIGN_IN_FAILS, without_token),
            _about(NoticeKind.PROVIDER_UNREACHABLE, unreachable),
            _about(NoticeKind.FLOAT_LOW, low),
        ]

    async def _of_store(self, now: Instant) -> Iterable[Matter]:
        admin = self.store.admin
        changes = [
            note
            for note in await admin.provider_notes(NoteTopic.AUDIT_LOG_CHANGED)
            if elapsed(note.at, now) < DAY
        ]
        waiting = (await self.store.configuration()).restored_brands
        return [
            Matter(NoticeKind.AUDIT_LOG_CHANGED, len(changes)),
            Matter(NoticeKind.STORE_RESTORED, len(waiting)),
            *self._of_certificate(now),
        ]

    def _of_certificate(self, now: Instant) -> Iterator[Matter]:
        expires_at = self.certificate_expires_at()
        if expires_at is not None and elapsed(now, expires_at) < CERTIFICATE_TOLD_BEFORE:
            # With less than a day left it is still a matter.
            yield Matter(NoticeKind.CERTIFICATE_EXPIRES, max(1, elapsed(now, expires_at) // DAY))


def _about(kind: NoticeKind, providers: Sequence[str]) -> Matter:
    return Matter(kind, len(providers), providers=tuple(sorted(set(providers))))


@frozen
class NoticeWorker:
    """Runs once in each process."""

    matters: WaitingMatters
    receiver: NoticeReceiver
    moment: Callable[[], Moment]

    async def run(self) -> None:
        """Do the rounds that no other process does, until cancelled."""
        await trio.sleep(ROUND_S)
        while True:
            try:
                await self._run_round()
            except SettingsError as error:
                logger.error("notice_failed", reason=str(error), once_a_minute=True)
            except Exception as error:
                log_store_failure(logger, "notice_round_failed", error)

            await trio.sleep(LOOK_S)

    async def _run_round(self) -> None:
        """Claim the round, look at what waits, and send a message if one is due."""
        # 1. Claim the round: the note with its time is written in place of the one that is known.
        admin = self.matters.store.admin
        moment = self.moment()
        now = moment.time
        known = await self._known()
        claimed = evolve(known, at=now)
        if elapsed(known.at, now) < Span(round(ROUND_S * 1_000_000)):
            return
        if not await admin.note_provider(claimed, replacing=known):
            return

        # 2. What waits, what has waited long enough, and whether that is to be told now.
        matters = await self.matters.find(moment)
        record = notices.seen(parse_record(claimed.content), matters, now)
        lasting = notices.patient(record, matters, now)
        limits = NoticeLimits(
            self.receiver.section.messages_per_hour, self.receiver.section.repeat_after
        )
        if not notices.is_due(record, lasting, limits, now):
            await self._keep(claimed, record)
            return

        # 3. The attempt is on record before it is made, and its success after it.
        tried = notices.attempted(record, now)
        kept = await self._keep(claimed, tried)
        if kept is not None and await self._send(lasting, record, moment):
            await self._keep(kept, notices.delivered(tried, lasting, now))

    async def _known(self) -> ProviderNote:
        notes = await self.matters.store.admin.provider_notes(NoteTopic.NOTICE)
        if notes:
            return notes[0]
        return ProviderNote("", NoteTopic.NOTICE)

    async def _keep(self, claimed: ProviderNote, record: NoticeRecord) -> ProviderNote | None:
        """Write the record in place of the note that this process has written; return the new
        note, or None when another process has taken the round over meanwhile."""
        note = evolve(claimed, content=format_record(record))
        if note == claimed:
            return note

        is_written = await self.matters.store.admin.note_provider(note, replacing=claimed)
        if is_written:
            return note
        return None

    async def _send(self, matters: Sequence[Matter], record: NoticeRecord, now: Moment) -> bool:
        host = self.receiver.gateway.partition("://")[2]
        text = " ".join([f"{host}:", *map(self._sentence, matters)])
        make = partial(self._member, record=record, now=now)
        attempt = await self.receiver.send(text, {"matters": [*map(make, matters)]}, now.utc)
        kinds = [matter.kind.value for matter in matters]
        if attempt.outcome is DeliveryOutcome.DELIVERED:
            logger.info("notice_sent", kinds=kinds)
            return True

        logger.warning("notice_failed", kinds=kinds, reason=attempt.detail, status=attempt.status)
        return False

    def _sentence(self, matter: Matter) -> str:
        """Return what waits and where it is seen: a chat shows the text alone."""
        text, link = notices.sentence(matter), self._link(matter)
        if link is None:
            return text
        return f"{text} {link}"

    def _link(self, matter: Matter) -> str | None:
        console_url = self.receiver.section.console_url
        if console_url is None:
            return None
        return f"{console_url}{PAGES[matter.kind]}"

    def _member(self, matter: Matter, record: NoticeRecord, now: Moment) -> Mapping[str, object]:
        waited = elapsed(record.since[matter.kind], now.time)
        return {
            "kind": matter.kind,
            "count": matter.count,
            "sums": {amount.currency: amount.text for amount in matter.sums},
            "providers": matter.providers,
            "since": format_with_microseconds(earlier(now.utc, waited)),
            "isNew": matter.kind not in record.told,
            "link": self._link(matter),
        }


def format_record(record: NoticeRecord) -> str:
    """Return the text of a record, as the store keeps it."""
    return json.dumps(
        {
            "since": record.since,
            "found": record.found,
            "told": {kind: [told.at, told.count] for kind, told in record.told.items()},
            "attempts": record.attempts,
            "failures": record.failures,
        },
        sort_keys=True,
    )


def parse_record(text: str) -> NoticeRecord:
    """Return the record of this text; an empty one for an empty text."""
    if not text:
        return NoticeRecord()

    members = json.loads(text)
    return NoticeRecord(
        {NoticeKind(kind): Instant(at) for kind, at in members["since"].items()},
        {NoticeKind(kind): Instant(at) for kind, at in members["found"].items()},
        {
            NoticeKind(kind): Told(Instant(at), count)
            for kind, (at, count) in members["told"].items()
        },
        tuple(Instant(at) for at in members["attempts"]),
        members["failures"],
    )
