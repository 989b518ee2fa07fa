"""Holds a conversation with the SQLite file."""

from __future__ import annotations

import sqlite3
from typing import TypeVar

from mmo_trio.storage.statements import Conversation

T = TypeVar("T")


def hold(connection: sqlite3.Connection, conversation: Conversation[T]) -> T:
    """To its end, inside the connection's transaction."""
    try:
        said = next(conversation)
        while True:
            said = conversation.send(connection.execute(said.text, said.values).fetchall())
    except StopIteration as end:
        result: T = end.value
        return result
