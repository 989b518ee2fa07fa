"""Chooses the language of the payment page, by its switch or by the browser's preferences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import evolve

from mmo_sansio.values.number_format import NumberFormat
from mmo_trio.pages.payment.languages.arabic import ARABIC
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.pages.payment.languages.french import FRENCH
from mmo_trio.pages.payment.languages.portuguese import PORTUGUESE
from mmo_trio.pages.payment.languages.swahili import SWAHILI
from mmo_trio.pages.payment.languages.texts import PageTexts

# The languages by code, in the order of the switch; the first is the default.
LANGUAGES: Mapping[str, PageTexts] = MappingProxyType(
    {language.code: language for language in (ENGLISH, FRENCH, SWAHILI, PORTUGUESE, ARABIC)}
)

_MAGHREB_FORMAT = NumberFormat(
    thousands_separator=".", decimal_separator=",", is_currency_first=False
)

# Number formats of locales that differ from the language's (Unicode CLDR).
NUMBER_FORMATS_BY_LOCALE: Mapping[str, NumberFormat] = MappingProxyType(
    dict.fromkeys(("ar-dz", "ar-ly", "ar-ma", "ar-tn", "ar-eh"), _MAGHREB_FORMAT)
)


def choose_language(requested: str | None, accepted: Iterable[str]) -> PageTexts:
    """Return the requested language, else the first accepted one that exists, else English."""
    tags = [tag.lower().replace("_", "-") for tag in accepted]
    # The switch decides the words; how numbers look is still the browser's.
    if requested is not None and requested in LANGUAGES:
        return _localized(LANGUAGES[requested], tags)
    for tag in tags:
        texts = LANGUAGES.get(tag.partition("-")[0])
        if texts is not None:
            return _localized(texts, [tag])
    return ENGLISH


def _localized(texts: PageTexts, tags: Iterable[str]) -> PageTexts:
    """Return the language with the number format of the first locale among the tags."""
    for tag in tags:
        if tag.partition("-")[0] == texts.code:
            return evolve(texts, numbers=NUMBER_FORMATS_BY_LOCALE.get(tag, texts.numbers))
    return texts
