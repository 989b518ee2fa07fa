"""Records, for a while that a person has asked for, what goes to and comes from an operator.

The lines are redacted before they go anywhere. They wait in the store, where the command finds those of all processes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog
import trio
from attrs import Factory, define, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.common.recording import RecordedExchange, Redactor
from mmo_sansio.values.clock import MILLISECOND, Instant, elapsed
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.providers.account import ProviderAccount

logger = structlog.get_logger(__name__)

ROUND_S: Final = 2.0
"""Seconds between two looks at what is to be recorded; the lines of one round are written together."""

RECORDED_BYTES_MAX: Final = 1024 * 1024
"""What one process records of one account at most."""


@define(eq=False)
class _Recording:
    note: ProviderNote
    redactor: Redactor
    began_at: Instant
    lines: list[str] = Factory(list)
    chunks: int = 0
    recorded_bytes: int = 0


@define(eq=False)
class AccountRecorder:
    """Runs once in each process, for the accounts with operators."""

    store: AdminStore
    accounts: Mapping[str, ProviderAccount]
    secrets: Mapping[str, Sequence[str]] = field(repr=False)
    """The secrets of each account."""
    now: Callable[[], Instant]
    """Returns the gateway's own time."""
    _recordings: dict[str, _Recording] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        for name, account in self.accounts.items():
            account.observe = partial(self.observe, name)

    def observe(
        self, name: str, request: HttpRequest, answer: HttpResponse | ExchangeFailed, *, is_from_operator: bool = False
    ) -> None:
        """Record an exchange, if this account is recorded and there is room."""
        recording = self._recordings.get(name)
        if recording is None or recording.recorded_bytes >= RECORDED_BYTES_MAX:
            return
        offset_ms = elapsed(recording.began_at, self.now()) // MILLISECOND
        try:
            line = recording.redactor.to_line(RecordedExchange(is_from_operator, offset_ms, request, answer))
        except Exception as error:  # A payment goes on, whatever is in it.
            logger.error("exchange_not_recorded", provider=name, fault=describe_fault(error), once_a_minute=True)
            return
        recording.lines.append(line)
        recording.recorded_bytes += len(line)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run rounds until cancelled."""
        task_status.started()
        while True:
            try:
                asked = {each.provider: each for each in await self.store.provider_notes(NoteTopic.RECORDING)}
                for name in self.accounts:
                    await self._write(name)
                    self._switch(name, asked.get(name))
            except Exception as error:
                log_store_failure(logger, "recording_failed", error)
            await trio.sleep(ROUND_S)

    def _switch(self, name: str, asked: ProviderNote | None) -> None:
        is_on, present = asked is not None and self.now() < asked.at, self._recordings.get(name)
        if present is not None and not (is_on and present.note == asked):
            del self._recordings[name]
            logger.info("provider_recording_ended", provider=name)
        if asked is not None and is_on and name not in self._recordings:
            redactor = Redactor(bytes.fromhex(asked.content), self.secrets[name])
            self._recordings[name] = _Recording(asked, redactor, self.now())
            logger.warning("provider_recording_began", provider=name)

    async def _write(self, name: str) -> None:
        recording = self._recordings.get(name)
        if recording is None or not recording.lines:
            return
        process = f"{socket.gethostname()}-{os.getpid()}"
        lines, recording.lines = recording.lines, []
        subject = f"{process}-{recording.chunks:06}"
        recording.chunks += 1
        await self.store.note_provider(ProviderNote(name, NoteTopic.RECORDED, subject, self.now(), "\n".join(lines)))
