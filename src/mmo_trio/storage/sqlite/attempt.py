"""A write whose caller may lose patience: who was first decides whether it can still be stored."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mmo_sansio.intents import IntentKey
from mmo_trio.storage.base import StoreUnavailable


class Attempt:
    """Settles who was first: the thread beginning to commit, or its caller losing patience."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._is_committing = False
        self.has_ended = False
        self.scheduled: Sequence[IntentKey] = ()
        """Kept intents that it writes, if it comes to that."""

    def begin_commit(self) -> None:
        """Called by the thread; raises StoreUnavailable when nobody waits any more."""
        with self._lock:
            if self._is_abandoned:
                raise StoreUnavailable("the caller has given up")
            self._is_committing = True

    def abandon(self) -> bool:
        """Called by the caller; True when it is too late to keep the thread from committing."""
        with self._lock:
            self._is_abandoned = True
            return self._is_committing
