"""A strict reader of PNG pictures in one bit of grey (ISO/IEC 15948), as QR codes are drawn."""

from __future__ import annotations

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
FILTER_NONE, FILTER_UP = 0, 2


def parse_png(data: bytes) -> list[list[bool]]:
    """The picture's rows, true for a dark pixel. Raises ValueError for any other picture."""
    if not data.startswith(SIGNATURE):
        raise ValueError("it is no PNG")
    chunks, at = [], len(SIGNATURE)
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body, (crc,) = (
            data[at + 8 : at + 8 + length],
            struct.unpack(">I", data[at + 8 + length : at + 12 + length]),
        )
        if len(body) != length or crc != zlib.crc32(kind + body):
            raise ValueError(f"its chunk {kind!r} is damaged")
        chunks.append((kind, body))
        at += 12 + length
    if chunks[0][0] != b"IHDR" or chunks[-1] != (b"IEND", b""):
        raise ValueError("it does not begin with IHDR, or does not end with IEND")
    width, height, depth, colour, *other = struct.unpack(">IIBBBBB", chunks[0][1])
    if (depth, colour, other) not in ((1, 0, [0, 0, 0]), (1, 3, [0, 0, 0])):
        raise ValueError("it is not of one bit, or it is interlaced")
    packed = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    stride = 1 + (width + 7) // 8
    if len(packed) != stride * height:
        raise ValueError("it has too few rows, or too many")
    rows, above = [], bytes(stride - 1)
    for start in range(0, len(packed), stride):
        filter_type, row = packed[start], packed[start + 1 : start + stride]
        if filter_type not in (FILTER_NONE, FILTER_UP):
            raise ValueError(f"a row has the filter {filter_type}")
        above = (
            bytes((a + b) % 256 for a, b in zip(row, above, strict=True))
            if filter_type == FILTER_UP
            else row
        )
        rows.append(above)
    return [[not row[x // 8] >> (7 - x % 8) & 1 for x in range(width)] for row in rows]
