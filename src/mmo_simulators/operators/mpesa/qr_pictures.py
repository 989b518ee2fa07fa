"""Draws the codes of M-Pesa's Dynamic QR.

A request names the picture's size in pixels. segno draws modules of a whole number of pixels and no
margin to fill the rest, so the picture is written here."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

import segno

from mmo_sansio.providers.common.emv_qr import QrMerchant, dynamic_payload
from mmo_sansio.values.money import Money

# ISO/IEC 18004: a light margin of four modules, without which readers find no code.
QUIET_ZONE_MODULES: Final = 4
# A tester's mistake must not fill the memory.
SIZE_MAX_PIXELS: Final = 1000

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"

# The merchant's account stands in template 28 of Kenya's QR standard, whose identifier this is.
_ACCOUNT_TEMPLATE: Final = "28"
_SCHEME: Final = "ke.go.qr"

# Other retail shops (ISO 18245): a request names no category, and no city.
_CATEGORY: Final = "5999"
_CITY: Final = "NAIROBI"


def qr_payload(form: Mapping[str, str]) -> str:
    """Return the text of the code that pays what a request's form says. Raises QrError for one that
    no code can hold."""
    # In the template: the scheme, who is paid, and how, such as PB for a bill.
    merchant = QrMerchant(
        account=(("00", _SCHEME), ("01", form["CPI"]), ("02", form["TrxCode"])),
        name=form["MerchantName"],
        city=_CITY,
        country="KE",
        account_id=_ACCOUNT_TEMPLATE,
        category=_CATEGORY,
    )
    return dynamic_payload(
        merchant, Money(int(form["Amount"]) * 100, "KES"), form["RefNo"], bill_number=form["RefNo"]
    )


def draw_qr_code(form: Mapping[str, str]) -> str:
    """Return the code of a request's form as a PNG picture in base64: a square of `Size` pixels,
    with the largest modules that fit into it. Raises QrError for a form that no code can hold."""
    # Level M, the usual one, also where a higher one would fit: all codes are as hard to read.
    code = segno.make_qr(qr_payload(form), error="m", encoding="utf-8", boost_error=False)
    size = min(int(form["Size"]), SIZE_MAX_PIXELS)
    scale = max(1, size // code.symbol_size(border=QUIET_ZONE_MODULES)[0])
    rows = [bytes(row) for row in code.matrix_iter(scale=scale, border=QUIET_ZONE_MODULES)]
    return b64encode(_png(_pad(rows, size))).decode()


def _pad(rows: list[bytes], size: int) -> list[bytes]:
    """Return the rows, with 1 for a dark pixel, in the middle of a light square of this size or of
    their own."""
    size = max(size, len(rows))
    before = (size - len(rows)) // 2
    light = bytes(size)
    padded = [light[:before] + row + light[before + len(row) :] for row in rows]
    return [light] * before + padded + [light] * (size - len(rows) - before)


def _png(rows: list[bytes]) -> bytes:
    """Return a PNG picture (ISO/IEC 15948) of these rows in one bit of grey."""
    size = len(rows)
    packed = b"".join(b"\0" + _pack(row) for row in rows)
    # One bit a pixel, grey; no other filter, no interlacing.
    header = struct.pack(">IIBBBBB", size, size, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(packed)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, body) for kind, body in chunks)


def _pack(row: bytes) -> bytes:
    """Return a row with eight pixels in a byte, a light one as 1."""
    length = (len(row) + 7) // 8
    bits = "".join("0" if dark else "1" for dark in row).ljust(length * 8, "0")
    return int(bits, 2).to_bytes(length, "big")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
