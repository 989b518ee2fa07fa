"""The languages of the payment page: one table each, chosen by the switch or by what the browser asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import evolve

from mmo_trio.pages.payment.languages.arabic import ARABIC
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.pages.payment.languages.french import FRENCH
from mmo_trio.pages.payment.languages.portuguese import PORTUGUESE
from mmo_trio.pages.payment.languages.swahili import SWAHILI
from mmo_trio.pages.payment.languages.texts import NumberFormat, PageTexts

LANGUAGES: Mapping[str, PageTexts] = MappingProxyType(
    {each.code: each for each in (ENGLISH, FRENCH, SWAHILI, PORTUGUESE, ARABIC)}
)
"""By code, in the order of the switch; the first is for those who ask for none of them."""

_MAGHREB_FORMAT = NumberFormat(
    thousands_separator=".", decimal_separator=",", is_currency_first=False
)
NUMBER_FORMATS_BY_LOCALE: Mapping[str, NumberFormat] = MappingProxyType(
    dict.fromkeys(("ar-dz", "ar-ly", "ar-ma", "ar-tn", "ar-eh"), _MAGHREB_FORMAT)
)
"""Where a language's numbers are written otherwise than elsewhere (Unicode CLDR)."""


def choose_language(requested: str | None, accepted: Iterable[str]) -> PageTexts:
    """The language that was switched to, if there is such a one; else the first of those accepted, best first, that
    we speak; else English."""
    tags = [tag.lower().replace("_", "-") for tag in accepted]
    if requested is not None and requested in LANGUAGES:
        return _localized(LANGUAGES[requested], tags)
    for tag in tags:
        texts = LANGUAGES.get(tag.partition("-")[0])
        if texts is not None:
            return _localized(texts, [tag])
    return ENGLISH


def _localized(texts: PageTexts, tags: Iterable[str]) -> PageTexts:
    """The language as it is written in the first place that the tags name."""
    for tag in tags:
        if tag.partition("-")[0] == texts.code:
            return evolve(texts, numbers=NUMBER_FORMATS_BY_LOCALE.get(tag, texts.numbers))
    return texts
