"""Knows the dialling codes of the countries with mobile money (ITU-T E.164) and how long their
mobile numbers are, for numbers as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

# Country (ISO 3166-1), dialling code, and how many digits follow it: one number or a range.
_CODES = """
    AO 244 9, BD 880 10, BF 226 8, BI 257 8, BJ 229 10, BW 267 8, CD 243 9, CF 236 8, CG 242 9,
    CI 225 10, CM 237 9, CV 238 7, DJ 253 8, EG 20 10, ET 251 9, GA 241 7-8, GH 233 9, GM 220 7-9,
    GN 224 9, GQ 240 9, GW 245 9, ID 62 9-12, IN 91 10, KE 254 9, KH 855 8-9, KM 269 7, LR 231 7-9,
    LS 266 8, MA 212 9, MG 261 9, ML 223 8, MM 95 7-10, MR 222 8, MU 230 8, MW 265 9, MZ 258 9,
    NA 264 9, NE 227 8, NG 234 10, NP 977 10, PH 63 10, PK 92 10, RW 250 9, SC 248 7, SD 249 9,
    SL 232 8, SN 221 9, SO 252 7-9, SS 211 9, ST 239 7, SZ 268 8, TD 235 8, TG 228 8, TN 216 8,
    TZ 255 9, UG 256 9, VN 84 9, ZA 27 9, ZM 260 9, ZW 263 9
"""

_ROW: Final = re.compile(
    r"(?P<country>[A-Z]{2}) (?P<code>[0-9]+) (?P<least>[0-9]+)(?:-(?P<most>[0-9]+))?"
)

# The dialling code of each country, by ISO 3166-1 alpha-2.
DIALLING_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {row["country"]: row["code"] for row in _ROW.finditer(_CODES)}
)

# How many digits of a mobile number follow the code (the plans that the ITU publishes).
_MOBILE_DIGITS: Final = MappingProxyType(
    {
        row["country"]: range(int(row["least"]), int(row["most"] or row["least"]) + 1)
        for row in _ROW.finditer(_CODES)
    }
)


def possible_msisdns(digits: str, countries: Iterable[str]) -> list[str]:
    """Return the msisdns that these digits may stand for: as they are, without the two zeros of a
    call abroad, and as a national number of these countries, with and without its leading zero,
    which in some of them belongs to the number (in Congo and in Benin, say)."""
    found = [digits]
    if digits.startswith("00"):
        found.append(digits.removeprefix("00"))

    for country in dict.fromkeys(countries):
        # What is longer than a national number has its dialling code already.
        if country in DIALLING_CODES and len(digits) <= _national_digits_max(country):
            code = DIALLING_CODES[country]
            # Both: in some countries the zero is dialled at home only, in others it belongs to the
            # number.
            found += [code + digits, code + digits.removeprefix("0")]

    return list(dict.fromkeys(found))


def _national_digits_max(country: str) -> int:
    """Return how many digits its longest mobile number has with the zero that is dialled at home:
    10 in Kenya, 13 in Indonesia."""
    return max(_MOBILE_DIGITS[country]) + 1


def is_msisdn_of(country: str, msisdn: str) -> bool:
    """Tell whether a number can be a mobile number of the country by its code and its length; of a
    country that is not known, any can."""
    code = DIALLING_CODES.get(country)
    if code is None:
        return True
    digits = msisdn.removeprefix("+")
    return digits.startswith(code) and len(digits) - len(code) in _MOBILE_DIGITS[country]
