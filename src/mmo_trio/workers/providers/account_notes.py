"""Checks the accounts with providers, holds back what a provider says that it can't process, stops
questions that would lock a credential, and records for a while that a person has asked for what
goes to and comes from an operator.

What is learnt and recorded are notes in the store: all processes know what one has learnt, one of
them asks for all, and a command finds what all have recorded. The lines of a recording are redacted
before they go anywhere."""

from __future__ import annotations

import json
import os
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import structlog
import trio
from attrs import Factory, asdict, define, evolve, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.account_check import SIGN_IN
from mmo_sansio.providers.common.interface import (
    AccountCheck,
    AccountFinding,
    AccountState,
    ChecksAccount,
    CredentialStopped,
    ExchangeFailed,
    LocksCredentials,
    ReportsAvailability,
)
from mmo_sansio.providers.common.recording import RecordedExchange, Redactor
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    Instant,
    Moment,
    Span,
    earlier,
    elapsed,
)
from mmo_sansio.values.model import Type
from mmo_trio.brands.keyring import KeyRing, SealError
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.providers.account import ProviderAccount, SendRequest, drive_async

logger = structlog.get_logger(__name__)

# Seconds between two looks at what other processes and people have noted; what was recorded in
# between is written together.
ROUND_S: Final = 2.0

# Seconds after the start before the first check, or question for a balance: payments that wait go
# first.
FIRST_CHECK_AFTER_S: Final = 30.0

CHECKED_AT_MOST_EVERY: Final = HOUR
CHECKED_EVERY: Final = DAY

# How long after a sign-in that had no usable answer an account is checked again: the finding, and
# the alert by it, shall not stand for a day after the operator's fault is over.
CHECKED_AGAIN_AFTER: Final = Span(10 * MINUTE)

CHECK_TIMEOUT_S: Final = 60.0

AVAILABILITY_ASKED_EVERY: Final = Span(30 * SECOND)

# How long payments are held back since the provider last said so. Then one is tried: if the others
# went with it, all would meet what is still refused, and a password that is still wrong be locked.
HELD_FOR: Final = Span(5 * MINUTE)

# How long the others wait for what becomes of it: they follow where nothing refuses it by then, as
# some operators say only by a result whether they take what was sent.
TRIED_FOR: Final = Span(MINUTE)

# What is held back beside the types of payments.
_REVERSALS: Final = "reversals"

# The content of a note of a check that a person has asked for.
REQUESTED: Final = "requested"

# What one process records of one account at most.
RECORDED_BYTES_MAX: Final = 1024 * 1024

# How long recorded lines wait for the command that collects them: an hour, the longest recording,
# and one more.
RECORDED_KEPT_FOR: Final = Span(2 * HOUR)

TIDIED_EVERY: Final = MINUTE


@define(eq=False)
class AccountChecks:
    """Runs once in each process, for the accounts with operators."""

    store: AdminStore
    accounts: Mapping[str, ProviderAccount]
    moment: Callable[[], Moment]
    round_s: float = ROUND_S
    with_availability: Collection[str] = ()
    """The accounts whose adapters are a ReportsAvailability."""
    _notes: dict[tuple[str, str], ProviderNote] = Factory(dict)
    """The notes of findings, by provider and part."""
    _stopped: frozenset[str] = frozenset()
    """The credentials with which nothing automatic may ask."""
    _holds: dict[tuple[str, str], trio.Event] = Factory(dict)
    """What is held back, by provider and the type of payments, or _REVERSALS."""
    _due: frozenset[tuple[str, str]] = frozenset()
    """Of which of these one is to be tried."""
    _trials: dict[tuple[str, str], ProviderNote] = Factory(dict)
    """When one was tried last."""
    _asked_to_try: set[tuple[str, str]] = Factory(set)
    """Of which this process has asked since the last round whether it may try one."""

    def __attrs_post_init__(self) -> None:
        for account in self.accounts.values():
            account.learn = self.learn_by_answer

    @property
    def findings(self) -> Sequence[AccountFinding]:
        """Return what is known of the accounts of this process."""
        return [
            read_finding_note(note)
            for note in self._notes.values()
            if note.provider in self.accounts
        ]

    def hold_of(self, provider: str, type: Type) -> trio.Event | None:
        """Return what is set once such payments may be sent to the provider again, or one is to be
        tried; None: they may be sent."""
        return self._holds.get((provider, type))

    def is_held(self, provider: str, type: Type) -> bool:
        """Tell whether no such payment is sent to the provider for now, not even one to try it."""
        key = provider, type
        return key in self._holds and key not in self._due

    def holds_reversals(self, provider: str) -> bool:
        """Tell whether no reversal may be sent to the provider for now."""
        return (provider, _REVERSALS) in self._holds

    async def begin_trial(self, provider: str, type: Type | None) -> bool:
        """Tell whether the caller is to send one payment of this type, or one reversal (None),
        which are held: the time is over for which a refusal counts. It is told to one caller of all
        processes, once after each refusal."""
        key = provider, type or _REVERSALS
        if key not in self._due or key in self._asked_to_try:
            return False

        # Before the store is asked: no two tasks of this process ask for the same.
        self._asked_to_try.add(key)

        known = self._trials.get(key, ProviderNote(provider, NoteTopic.TRIAL, str(key[1])))
        begun = evolve(known, at=self.moment().time)
        try:
            if not await self.store.note_provider(begun, replacing=known):
                return False
        except Exception as error:
            log_store_failure(logger, "provider_trial_not_noted", error, provider=provider)
            return False

        logger.info("provider_hold_tried", provider=provider, type=str(key[1]))
        self._trials[key] = begun
        self._keep([*self._notes.values()])
        return True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run rounds until cancelled; what is known already is read before `started`."""
        # After a start an account is checked unless it was in the last hour: its settings may have
        # changed. From then on it is checked once a day.
        began_at = trio.current_time()
        may_ask_after = CHECKED_AT_MOST_EVERY
        async with trio.open_nursery() as checks:
            await self._run_round(checks, None)
            task_status.started()
            while True:
                await trio.sleep(self.round_s)
                if trio.current_time() < began_at + FIRST_CHECK_AFTER_S:
                    await self._run_round(checks, None)
                    continue

                await self._run_round(checks, may_ask_after)
                may_ask_after = CHECKED_EVERY

    async def ask(self, provider: str, request: HttpRequest) -> HttpResponse:
        """Return the answer to a question. Raises CredentialStopped instead of asking with a
        credential that the operator has refused, and ExchangeFailed."""
        account = self.accounts[provider]
        self._check_credential(account, request)
        return await account.ask(request)

    async def ask_about_payee(self, provider: str, request: HttpRequest) -> HttpResponse:
        """Do what `ask` does, for a question on which no payment depends."""
        account = self.accounts[provider]
        self._check_credential(account, request)
        return await account.ask_about_payee(request)

    def _check_credential(self, account: ProviderAccount, request: HttpRequest) -> None:
        """Raise CredentialStopped where the request would show a credential that the operator has
        refused."""
        adapter = account.provider
        if (
            self._stopped
            and isinstance(adapter, LocksCredentials)
            and adapter.credential_of(request) in self._stopped
        ):
            reason = (
                "It is not asked, because it has refused the password and would lock the API "
                "operator."
            )
            raise CredentialStopped(reason, may_have_arrived=False)

    async def learn(self, finding: AccountFinding) -> None:
        """Keep a finding; a known one is written again after an hour. Raises what the store
        raises."""
        # 1. Said each time: the log tells how long it lasts.
        log = logger.bind(
            provider=finding.provider,
            part=finding.part,
            code=finding.code,
            meaning=finding.words,
            once_a_minute=True,
        )
        if finding.state is AccountState.REFUSED:
            log.error("operator_refuses_account")
        elif finding.state is AccountState.WARNED:
            log.warning("operator_account_warned")

        # 2. What is news. A question without an answer ends no hold.
        known = self._notes.get((finding.provider, finding.part))
        before = None
        if known is not None:
            before = read_finding_note(known)

        if finding.state is AccountState.UNKNOWN and before is not None and self._holds_by(before):
            return
        if (latest := finding.after(before)) is before:
            return

        # 3. Kept for all processes. What holds payments back is written each time: the hold counts
        #    from the last one.
        note = finding_note(latest, self.moment().time)
        is_old = (
            known is None
            or latest.holds_back
            or elapsed(known.at, note.at) >= CHECKED_AT_MOST_EVERY
        )
        works_as_before = before is not None and before.state is finding.state is AccountState.WORKS
        if is_old or not (works_as_before or (known is not None and known.content == note.content)):
            await self.store.note_provider(note)
            self._keep([*self._notes.values(), note])

    async def learn_by_answer(self, finding: AccountFinding) -> None:
        """Keep what the answer to a submission says; that all works is news after a refusal only.
        Where the store fails, the next answer tells it."""
        known = self._notes.get((finding.provider, finding.part))
        is_refused = known is not None and read_finding_note(known).state is AccountState.REFUSED
        if finding.state is AccountState.WORKS and not is_refused:
            return
        try:
            await self.learn(finding)
        except Exception as error:
            log_store_failure(logger, "account_check_failed", error, provider=finding.provider)

    async def _run_round(self, checks: trio.Nursery, checked_every: Span | None) -> None:
        """Read what is known, and begin the checks that are due; None: only those that a person has
        asked for."""
        try:
            # 1. What all processes have learnt; what this one learns meanwhile is not in it.
            read_from = self.moment().time
            notes = await self.store.provider_notes(
                NoteTopic.CHECK, NoteTopic.FINDING, NoteTopic.TRIAL, NoteTopic.AVAILABILITY
            )
            trials = (note for note in notes if note.topic is NoteTopic.TRIAL)
            self._trials = {(trial.provider, trial.subject): trial for trial in trials}
            self._asked_to_try.clear()
            learned_since = (note for note in self._notes.values() if note.at >= read_from)
            self._keep(
                [*(note for note in notes if note.topic is NoteTopic.FINDING), *learned_since]
            )

            # 2. Whether operators say of themselves that they are down. Of all processes the one
            #    asks whose claim becomes the note.
            asked = {note.provider: note for note in notes if note.topic is NoteTopic.AVAILABILITY}
            for name in self.with_availability:
                known = asked.get(name, ProviderNote(name, NoteTopic.AVAILABILITY))
                now = self.moment()
                is_due = elapsed(known.at, now.time) >= AVAILABILITY_ASKED_EVERY
                if is_due and await self.store.note_provider(
                    evolve(known, at=now.time), replacing=known
                ):
                    adapter = self.accounts[name].provider
                    assert isinstance(adapter, ReportsAvailability)
                    checks.start_soon(
                        self._learn_all,
                        name,
                        adapter.ask_availability(now=now),
                        partial(self.ask, name),
                    )

            # 3. Whether our accounts work, or what a person has asked for.
            last = {note.provider: note for note in notes if note.topic is NoteTopic.CHECK}
            for name in self.accounts:
                known = last.get(name, ProviderNote(name, NoteTopic.CHECK))
                now = self.moment()
                interval = checked_every
                if interval is not None and self._is_sign_in_unknown(name):
                    interval = min(interval, CHECKED_AGAIN_AFTER)

                is_due = interval is not None and elapsed(known.at, now.time) >= interval
                if known.content != REQUESTED and not is_due:
                    continue

                if await self.store.note_provider(
                    evolve(known, at=now.time, content=""), replacing=known
                ):
                    checks.start_soon(self._check, name, known.content == REQUESTED)
        except Exception as error:
            log_store_failure(logger, "account_notes_unread", error)

    def _is_sign_in_unknown(self, name: str) -> bool:
        """Tell whether the last sign-in with this account had no usable answer."""
        known = self._notes.get((name, SIGN_IN))
        return known is not None and read_finding_note(known).state is AccountState.UNKNOWN

    async def _check(self, name: str, is_asked_for: bool) -> None:
        """Ask the questions of one account; those of a person also with what the operator has
        refused."""
        adapter = self.accounts[name].provider
        assert isinstance(adapter, ChecksAccount)

        # Past the stop of a credential: the person has given it another password, say.
        send: SendRequest = partial(self.ask, name)
        if is_asked_for:
            send = self.accounts[name].ask

        await self._learn_all(name, adapter.check_account(now=self.moment()), send)

    async def _learn_all(self, name: str, check: AccountCheck, send: SendRequest) -> None:
        try:
            with trio.move_on_after(CHECK_TIMEOUT_S):
                for note in await drive_async(check, send):
                    await self.learn(note)
        except Exception as error:
            log_store_failure(logger, "account_check_failed", error, provider=name)

    def _keep(self, notes: Sequence[ProviderNote]) -> None:
        """Take these notes of findings for what is known, and begin and end holds by them."""
        self._notes = {(note.provider, note.subject): note for note in notes}
        self._stopped = frozenset(
            finding.stopped_credential for finding in self.findings if finding.stopped_credential
        )
        held, due = self._find_holds()
        holds = held | due
        for ended in self._holds.keys() - holds:
            logger.info("provider_hold_ended", provider=ended[0], type=str(ended[1]))
            self._holds.pop(ended).set()

        for begun in holds - self._holds.keys():
            logger.warning("provider_hold_began", provider=begun[0], type=str(begun[1]))
            self._holds[begun] = trio.Event()

        # Whoever waits learns that one is to be tried; the others go on waiting.
        for key in due - self._due:
            self._holds[key].set()
            self._holds[key] = trio.Event()

        self._due = due

    def _find_holds(self) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
        """Return what is held back by the latest notes, and of what one is to be tried."""
        # When each kind was refused last, and which of them would show a refused credential again.
        now = self.moment().time
        latest: dict[tuple[str, str], Instant] = {}
        stopped: set[tuple[str, str]] = set()
        for note in self._notes.values():
            finding = read_finding_note(note)
            keys = _held_by(finding)
            latest |= {key: max(note.at, latest.get(key, note.at)) for key in keys}
            if self._is_stopped(finding):
                stopped |= set(keys)

        # 1. It is held for its time. 2. Then one is tried. 3. The others wait a little for what
        #    becomes of that.
        counting = {key for key, at in latest.items() if elapsed(at, now) < HELD_FOR} | stopped
        ended = latest.keys() - counting
        untried = {
            key for key in ended if key not in self._trials or self._trials[key].at <= latest[key]
        }
        open_trials = {
            key for key in ended - untried if elapsed(self._trials[key].at, now) < TRIED_FOR
        }
        return frozenset(counting | open_trials), frozenset(untried)

    def _holds_by(self, finding: AccountFinding) -> bool:
        """Tell whether something is still held back that this finding holds back."""
        return not self._holds.keys().isdisjoint(_held_by(finding))

    def _is_stopped(self, finding: AccountFinding) -> bool:
        """Tell whether the finding stops a credential that the account still has: nothing is tried
        with it until it changes, or a person asks."""
        account = self.accounts.get(finding.provider)
        return (
            bool(finding.stopped_credential)
            and account is not None
            and isinstance(account.provider, LocksCredentials)
            and account.provider.uses_credential(finding.stopped_credential)
        )


@define(eq=False)
class _Recording:
    """What is being recorded of an account."""

    note: ProviderNote
    """Which asks for it."""
    redactor: Redactor
    began_at: Instant
    """By the gateway's own time."""
    lines: list[str] = Factory(list)
    """Those that are not in the store yet."""
    chunks: int = 0
    """How often lines were written."""
    recorded_bytes: int = 0


@define(eq=False)
class AccountRecorder:
    """Runs once in each process, for the accounts with operators."""

    store: AdminStore
    accounts: Mapping[str, ProviderAccount]
    open_redactor: Mapping[str, Callable[[bytes], Redactor]] = field(repr=False)
    """Makes the redactor of each account, with the key of a recording."""
    keyring: KeyRing
    own_time: Callable[[], Instant]
    _tidied_at: Instant | None = None
    _refused: str = ""
    """The content of the last note whose key nobody with the master key has sealed."""
    _recordings: dict[str, _Recording] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        for name, account in self.accounts.items():
            account.observe = partial(self.observe, name)

    def observe(
        self,
        name: str,
        request: HttpRequest,
        answer: HttpResponse | ExchangeFailed,
        *,
        is_from_operator: bool = False,
    ) -> None:
        """Record an exchange, if this account is recorded and there is room."""
        recording = self._recordings.get(name)
        if recording is None or recording.recorded_bytes >= RECORDED_BYTES_MAX:
            return

        offset_ms = elapsed(recording.began_at, self.own_time()) // MILLISECOND
        try:
            line = recording.redactor.to_line(
                RecordedExchange(is_from_operator, offset_ms, request, answer)
            )
        except Exception as error:
            # A payment goes on, whatever is in it.
            logger.error(
                "exchange_not_recorded",
                provider=name,
                fault=describe_fault(error),
                once_a_minute=True,
            )
            return

        recording.lines.append(line)
        recording.recorded_bytes += len(line)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run rounds until cancelled."""
        task_status.started()
        while True:
            try:
                asked = {
                    provider_note.provider: provider_note
                    for provider_note in await self.store.provider_notes(NoteTopic.RECORDING)
                }
                for name in self.accounts:
                    # Written before it may end: the last lines belong to it.
                    await self._write(name)
                    self._switch(name, asked.get(name))

                await self._tidy(asked)
            except Exception as error:
                log_store_failure(logger, "recording_failed", error)

            await trio.sleep(ROUND_S)

    def _switch(self, name: str, asked: ProviderNote | None) -> None:
        """Begin and end the recording of an account by the note that asks for it: another note is
        another recording, with a key of its own."""
        # The time of the note is that at which it ends.
        is_on = asked is not None and self.own_time() < asked.at
        present = self._recordings.get(name)
        if present is not None and not (is_on and present.note == asked):
            del self._recordings[name]
            logger.info("provider_recording_ended", provider=name)

        if asked is not None and is_on and name not in self._recordings:
            self._begin(name, asked)

    def _begin(self, name: str, asked: ProviderNote) -> None:
        """Begin a recording, unless its note comes from somebody without the master key."""
        try:
            key = unseal_recording_key(self.keyring, name, asked.content)
        except (SealError, ValueError):
            if asked.content != self._refused:
                logger.error("provider_recording_refused", provider=name)
            self._refused = asked.content
            return

        redactor = self.open_redactor[name](key)
        self._recordings[name] = _Recording(asked, redactor, self.own_time())
        logger.warning("provider_recording_began", provider=name)

    async def _tidy(self, asked: Mapping[str, ProviderNote]) -> None:
        """Remove what a command that was killed has left: its request once its time is over, and
        the recorded lines later."""
        now = self.own_time()
        for name, note in asked.items():
            if note.at <= now:
                await self.store.remove_provider_notes(name, NoteTopic.RECORDING, until=now)

        if self._tidied_at is not None and elapsed(self._tidied_at, now) < TIDIED_EVERY:
            return

        # Lines that nobody has collected hold data of payers, redacted as they are.
        self._tidied_at = now
        for name in self.accounts:
            until = earlier(now, RECORDED_KEPT_FOR)
            await self.store.remove_provider_notes(name, NoteTopic.RECORDED, until=until)

    async def _write(self, name: str) -> None:
        recording = self._recordings.get(name)
        if recording is None or not recording.lines:
            return

        # Each write is a note of its own, under a name that no other process uses.
        process = f"{socket.gethostname()}-{os.getpid()}"
        lines = recording.lines
        recording.lines = []
        subject = f"{process}-{recording.chunks:06}"
        recording.chunks += 1
        await self.store.note_provider(
            ProviderNote(name, NoteTopic.RECORDED, subject, self.own_time(), "\n".join(lines))
        )


def seal_recording_key(keyring: KeyRing, provider: str, key: bytes) -> str:
    """Return the key of a recording as its note holds it."""
    return b64encode(keyring.seal_secret(_recording_of(provider), key)).decode()


def unseal_recording_key(keyring: KeyRing, provider: str, content: str) -> bytes:
    """Return the key of a recording. Raises SealError or ValueError for a note that nobody with the
    master key has written."""
    return keyring.unseal_secret(_recording_of(provider), b64decode(content))


def _recording_of(provider: str) -> str:
    return f"key of a recording of {provider}"


def _held_by(finding: AccountFinding) -> Sequence[tuple[str, str]]:
    """Return what a finding holds back, by provider and the type of payments, or _REVERSALS."""
    kinds: list[str] = [*finding.held]
    if finding.holds_reversals:
        kinds.append(_REVERSALS)

    return [(finding.provider, kind) for kind in kinds]


def finding_note(finding: AccountFinding, at: Instant) -> ProviderNote:
    """Return a finding as it is stored."""
    content = json.dumps(asdict(finding), ensure_ascii=False)
    return ProviderNote(finding.provider, NoteTopic.FINDING, finding.part, at, content)


def read_finding_note(note: ProviderNote) -> AccountFinding:
    """Return a stored finding."""
    members = json.loads(note.content)
    read = {"state": AccountState(members["state"]), "held": tuple(map(Type, members["held"]))}
    return AccountFinding(**{**members, **read})
