"""Knows the dialling codes of the countries with mobile money (ITU-T E.164), for numbers as people
write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

_CODES = """
    AO 244, BD 880, BF 226, BI 257, BJ 229, BW 267, CD 243, CF 236, CG 242, CI 225, CM 237, CV 238,
    DJ 253, EG 20, ET 251, GA 241, GH 233, GM 220, GN 224, GQ 240, GW 245, ID 62, IN 91, KE 254, KH
    855, KM 269, LR 231, LS 266, MA 212, MG 261, ML 223, MM 95, MR 222, MU 230, MW 265, MZ 258, NA
    264, NE 227, NG 234, NP 977, PH 63, PK 92, RW 250, SC 248, SD 249, SL 232, SN 221, SO 252, SS
    211, ST 239, SZ 268, TD 235, TG 228, TN 216, TZ 255, UG 256, VN 84, ZA 27, ZM 260, ZW 263
"""

DIALLING_CODES: Final[Mapping[str, str]] = MappingProxyType(
    dict(re.findall(r"([A-Z]{2}) ([0-9]+)", _CODES))
)
"""The dialling code of each country, by ISO 3166-1 alpha-2."""

NATIONAL_DIGITS_MAX: Final = 10
"""Digits of the longest national number, with its leading zero."""


def possible_msisdns(digits: str, countries: Iterable[str]) -> list[str]:
    """Return the msisdns that these digits may stand for: as they are, and as a national number of
    these countries, with or without its leading zero."""
    found = [digits]
    if len(digits) <= NATIONAL_DIGITS_MAX:
        codes = dict.fromkeys(DIALLING_CODES[each] for each in countries if each in DIALLING_CODES)
        found += [code + digits.removeprefix("0") for code in codes]
    return found
