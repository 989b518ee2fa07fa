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
from mmo_trio.pages.payment.languages.texts import NumberForm, Texts

LANGUAGES: Mapping[str, Texts] = MappingProxyType(
    {each.code: each for each in (ENGLISH, FRENCH, SWAHILI, PORTUGUESE, ARABIC)}
)
"""By code, in the order of the switch; the first is for those who ask for none of them."""

_MAGHREB = NumberForm(grouping=".", decimal=",", is_code_first=False)
NUMBERS_OF_PLACES: Mapping[str, NumberForm] = MappingProxyType(
    dict.fromkeys(("ar-dz", "ar-ly", "ar-ma", "ar-tn", "ar-eh"), _MAGHREB)
)
"""Where a language's numbers are written otherwise than elsewhere (Unicode CLDR)."""


def choose(wanted: str | None, accepted: Iterable[str]) -> Texts:
    """The language that was switched to, if there is such a one; else the first of those accepted, best first, that
    we speak; else English."""
    tags = [tag.lower().replace("_", "-") for tag in accepted]
    if wanted is not None and wanted in LANGUAGES:
        return _as_in(LANGUAGES[wanted], tags)
    for tag in tags:
        texts = LANGUAGES.get(tag.partition("-")[0])
        if texts is not None:
            return _as_in(texts, [tag])
    return ENGLISH


def _as_in(texts: Texts, tags: Iterable[str]) -> Texts:
    """The language as it is written in the first place that the tags name."""
    for tag in tags:
        if tag.partition("-")[0] == texts.code:
            return evolve(texts, numbers=NUMBERS_OF_PLACES.get(tag, texts.numbers))
    return texts
