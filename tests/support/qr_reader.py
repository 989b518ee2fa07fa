"""Reads pictures of QR codes with ZXing, which shares nothing with the library that draws them."""

from __future__ import annotations

import re

import zxingcpp

from tests.support.png import parse_png

DARK, LIGHT = 0, 255
MODULE_PIXELS = 4


def read_qr_code(picture: bytes) -> str:
    """The text of the QR code in a PNG picture. Raises ValueError when ZXing finds none."""
    return read_qr_rows(parse_png(picture))


def read_qr_svg(page: str) -> str:
    """The text of the QR code that a page draws by one path of horizontal strokes. Raises
    ValueError when ZXing finds none."""
    width = re.search(r'viewBox="0 0 (\d+) \d+" class="segno"', page)
    strokes = re.search(r'class="qrline"[^>]* d="([^"]+)"', page)
    if width is None or strokes is None:
        raise ValueError("there is no such drawing in it")
    side = int(width[1])
    modules = [[False] * side for _ in range(side)]
    x, y = 0, 0
    for letter, numbers in re.findall(r"([Mmh])([-. \d]+)", strokes[1]):
        first, *rest = map(float, numbers.split())
        if letter == "h":
            modules[y][x : x + int(first)] = [True] * int(first)
        elif letter == "M":
            x, y = 0, 0
        x, y = x + int(first), y + int(*rest)
    return read_qr_rows(
        [
            [each for each in row for _ in range(MODULE_PIXELS)]
            for row in modules
            for _ in range(MODULE_PIXELS)
        ]
    )


def read_qr_rows(rows: list[list[bool]]) -> str:
    """The text of the QR code in these rows of pixels, true for a dark one. Raises ValueError when
    ZXing finds none."""
    pixels = bytes(DARK if each else LIGHT for row in rows for each in row)
    found = zxingcpp.read_barcode(memoryview(pixels).cast("B", (len(rows), len(rows[0]))))
    if found is None or found.format != zxingcpp.BarcodeFormat.QRCode:
        raise ValueError("there is no QR code in it")
    return found.bytes.decode()
