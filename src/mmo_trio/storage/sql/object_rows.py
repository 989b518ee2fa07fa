"""The transaction object as a row: look-ups and records send the bytes that the HTTP API's serializer has made (T4).

It is stored with a transaction that has ended. That of a pending transaction, which changes with each step and is
seldom read, is rendered for its readers; its row is empty. A row is compressed: most of an object are its names, which
all objects have in common. They are the dictionary of the compression (RFC 1950), to which each row refers by its
checksum: so another dictionary may follow this one, but none may ever change.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import StoreCorrupt
from mmo_trio.storage.sql.serialization import parse_transaction, with_checksum, without_checksum

OBJECT_COLUMNS = (
    "object, CASE WHEN length(object) = 0 THEN order_row END, CASE WHEN length(object) = 0 THEN progress END"
)
"""What `object_of_row` needs of a transaction: its object, or else what it is rendered from."""

_DICTIONARY = (
    b'"pageUrl":null,"qrCode":null,"labels":null,"labels":{"lastName":null,"email":null,"timeout","manual","expiry",'
    b'"poll","payout","tax","web","push","qr","sandbox","mpesa_ke","mtn_ug","airtel_ke","UGX"},"TZS"},"USD"},'
    b'{"status":"failed","errorCode":"user_cancelled","errorMessage":"'
    b'{"status":"success","type":"payin","flow":"direct","gatewayReference":"01K","merchantReference":"'
    b'","reconciliationReference":"","providerReference":"","party":{"id":"","msisdn":"+254","firstName":"","lastName":"'
    b'","email":"@example.com"},"method":"","country":"KE","requestedAmount":{"value":1000.00,"currency":"KES"},'
    b'"finalAmount":{"value":1000.00,"currency":"KES"},"labels":null,"createdAt":"2026-01-01T00:00:00.000000Z",'
    b'"completedAt":"2026-01-01T00:00:00.000000Z","completionSource":"webhook","errorCode":null,"errorMessage":null,'
    b'"providerData":{"name":"","title":"","fee":null,"partyData":null,"errorCode":null,"errorMessage":null}}'
)
_COMPRESSION_LEVEL = 6
_WINDOW_BITS = 12
_MEMORY_LEVEL = 4


def serialize_object(transaction: Transaction) -> bytes:
    """Return the object of a transaction that has ended as its row, and an empty one while it is pending (T4)."""
    return compress_object(transaction_object(transaction)) if transaction.progress.stage.is_terminal else b""


def compress_object(rendered: bytes) -> bytes:
    """Return a transaction object as its row."""
    compressor = zlib.compressobj(
        _COMPRESSION_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY
    )
    return with_checksum(compressor.compress(rendered) + compressor.flush())


def parse_object(row: bytes) -> bytes:
    """Return the transaction object of a row that isn't empty. Raises StoreCorrupt."""
    try:
        return zlib.decompressobj(_WINDOW_BITS, _DICTIONARY).decompress(without_checksum(row))
    except zlib.error as error:
        raise StoreCorrupt("a stored transaction object can't be read") from error


def object_of_row(row: Sequence[bytes | None]) -> bytes:
    """Return the transaction object of a row of OBJECT_COLUMNS (T4). Raises StoreCorrupt."""
    stored, order, progress = row
    if stored:
        return parse_object(stored)
    assert order is not None
    assert progress is not None
    return _render_pending(order, progress)


@lru_cache(maxsize=1024)
def _render_pending(order: bytes, progress: bytes) -> bytes:
    """Render once for each version of a transaction that merchants look up again and again until it has ended."""
    return transaction_object(parse_transaction(order, progress))
