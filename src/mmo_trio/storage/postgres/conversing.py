"""Holds a conversation with PostgreSQL."""

from __future__ import annotations

from typing import TypeVar

from mmo_trio.storage.postgres.bridge import Connection
from mmo_trio.storage.postgres.text import held
from mmo_trio.storage.statements import Conversation

T = TypeVar("T")


async def hold(connection: Connection, conversation: Conversation[T]) -> T:
    """To its end, inside the connection's transaction if there is one. Text is held as PostgreSQL can."""
    try:
        said = next(conversation)
        while True:
            values = [held(each) if isinstance(each, str) else each for each in said.values]
            cursor = await connection.execute(
                said.text.replace("?", "%s").encode(), values or None, binary=True
            )
            said = conversation.send(await cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        result: T = end.value
        return result
