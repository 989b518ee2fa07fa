"""What payers read: nothing is missing in any language, and amounts are written as they write
them."""

from __future__ import annotations

import string
from collections.abc import Iterable
from datetime import UTC, datetime

import attrs
import pytest

from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Span, from_datetime
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode, PayerStep
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import NumberFormat, format_amount
from mmo_trio.pages.payment.languages import LANGUAGES, choose_language
from mmo_trio.pages.payment.languages.english import ENGLISH
from mmo_trio.pages.payment.languages.texts import (
    PageTexts,
    PluralCategory,
    format_date,
    format_time_left,
    format_time_waited,
    spoken_suffix,
)
from mmo_trio.pages.payment.page import PayerStatus, find_ending
from mmo_trio.system.display_text import mask_own_number

SENTENCES = [each.name for each in attrs.fields(PageTexts) if each.type in ("str", str)]
SAME_IN_SOME = {"code", "direction", "date_time"}


def fields_of(text: str) -> set[str]:
    """What is filled in."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_there_are_these_languages() -> None:
    assert list(LANGUAGES) == ["en", "fr", "sw", "pt", "ar"]
    assert {code for code, each in LANGUAGES.items() if each.direction == "rtl"} == {"ar"}


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", LANGUAGES)
def test_every_reason_is_explained_in_every_language(code: str) -> None:
    reasons = LANGUAGES[code].reasons
    assert set(reasons) == set(ErrorCode) == set(EXPLANATIONS)
    assert all(each.strip() and each.strip()[-1] in ".。" for each in reasons.values())
    if code != "en":
        assert not set(reasons.values()) & set(ENGLISH.reasons.values())


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", LANGUAGES)
def test_each_next_step_is_told_in_every_language(code: str) -> None:
    steps = LANGUAGES[code].next_steps
    assert set(steps) == set(PayerStep)
    assert len(set(steps.values())) == len(steps)
    assert all(each.endswith(".") for each in steps.values())
    if code != "en":
        assert not set(steps.values()) & set(ENGLISH.next_steps.values())
    # That trying again will not help is said in the same words before each thing that helps, and
    # never else.
    begins = {step: text.partition(".")[0] for step, text in steps.items()}
    others = (PayerStep.TRY_AGAIN, PayerStep.TOP_UP, PayerStep.WAIT)
    useless = {text for step, text in begins.items() if step not in others}
    assert len(useless) == 1
    assert not useless & {begins[step] for step in others}


@pytest.mark.spec("E1")
@pytest.mark.parametrize("code", LANGUAGES)
def test_only_where_it_is_known_is_a_payer_told_that_no_money_was_taken(code: str) -> None:
    texts = LANGUAGES[code]
    for each, why in EXPLANATIONS.items():
        is_unclear = why.payer_step is PayerStep.WAIT
        ending = find_ending(PayerStatus.UNCLEAR if is_unclear else PayerStatus.FAILED, each, texts)
        assert ending is not None
        assert (ending.heading, ending.money) == (
            (texts.unclear, "") if is_unclear else (texts.not_paid, texts.not_taken)
        )
        assert ending.reason == texts.reasons[each]
        assert texts.not_taken not in ending.reason, "it is said once"


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_date_is_written_as_the_payer_does(code: str) -> None:
    texts, moment = LANGUAGES[code], from_datetime(datetime(2026, 11, 28, 22, 51, tzinfo=UTC))
    assert len(texts.months) == len(set(texts.months)) == 12
    assert (
        format_date(moment, texts)
        == {
            "en": "28 Nov 2026, 22:51 UTC",
            "fr": "28 nov. 2026, 22:51 UTC",
            "sw": "28 Nov 2026, 22:51 UTC",
            "pt": "28 nov. 2026, 22:51 UTC",
            "ar": "٢٨ نوفمبر ٢٠٢٦، ٢٢:٥١ UTC",
        }[code]
    )


@pytest.mark.parametrize("code", LANGUAGES)
def test_no_text_is_missing_and_each_is_filled_in_as_in_english(code: str) -> None:
    texts = LANGUAGES[code]
    for name in SENTENCES:
        own, english = getattr(texts, name), getattr(ENGLISH, name)
        assert own.strip(), name
        assert fields_of(own) == fields_of(english), name
        if code != "en" and name not in SAME_IN_SOME:
            assert own != english, name


@pytest.mark.parametrize(
    ("requested", "accepted", "chosen"),
    [
        (None, [], "en"),
        (None, ["de", "fr-CI", "en"], "fr"),
        (None, ["SW_TZ"], "sw"),
        ("pt", ["ar"], "pt"),
        ("xx", ["ar"], "ar"),
        ("", ["*"], "en"),
    ],
)
def test_the_switch_comes_first_then_the_browsers_wishes(
    requested: str | None, accepted: Iterable[str], chosen: str
) -> None:
    assert choose_language(requested, accepted).code == chosen


NNBSP = "\u202f"


@pytest.mark.parametrize(
    ("amount", "tag", "written"),
    [
        (Money(15_000, "KES"), "en", "KES 150.00"),
        (Money(123_456_789, "KES"), "en", "KES 1,234,567.89"),
        (Money(5, "KES"), "en", "KES 0.05"),
        (Money(1_000, "UGX"), "en", "UGX 1,000"),
        (Money(999, "XOF"), "fr", "999 XOF"),
        (Money(2_500_000, "XOF"), "fr", f"2{NNBSP}500{NNBSP}000 XOF"),
        (Money(123_456, "KES"), "fr", f"1{NNBSP}234,56 KES"),
        (Money(123_456, "TZS"), "sw", "TZS 1,234.56"),
        (Money(123_456, "MZN"), "pt", "1.234,56 MZN"),
        (Money(123_456, "EGP"), "ar", "١٬٢٣٤٫٥٦ EGP"),
        (Money(123_456, "MAD"), "ar-MA", "1.234,56 MAD"),
        (Money(1_234_567, "KWD"), "en", "KWD 1,234.567"),
    ],
)
def test_amounts_are_written_as_the_payer_does(amount: Money, tag: str, written: str) -> None:
    assert format_amount(amount, choose_language(None, [tag]).numbers) == written


@pytest.mark.parametrize("form", [each.numbers for each in LANGUAGES.values()])
def test_an_amount_keeps_every_digit(form: NumberFormat) -> None:
    for minor in (1, 99, 100, 99_999, 10**17 + 7):
        amount = Money(minor, "KES")
        written = format_amount(amount, form)
        digits = "".join(str(form.digits.index(each)) for each in written if each in form.digits)
        assert digits == amount.text.replace(".", "")


@pytest.mark.parametrize(
    ("left", "written"),
    [
        (30 * MINUTE, "30 min"),
        (29 * MINUTE + SECOND, "30 min"),
        (SECOND, "1 min"),
        (0, "0 min"),
        (-SECOND, "0 min"),
        (2 * HOUR, "120 min"),
        (2 * HOUR + 1, "3 h"),
        (3 * DAY, "72 h"),
    ],
)
def test_time_is_rounded_up(left: Span, written: str) -> None:
    assert format_time_left(left, ENGLISH) == written


@pytest.mark.parametrize(
    ("waited", "written"),
    [(MINUTE, "1 min"), (2 * MINUTE - 1, "1 min"), (2 * HOUR, "120 min"), (3 * HOUR - 1, "2 h")],
)
def test_time_that_has_passed_is_rounded_down(waited: Span, written: str) -> None:
    assert format_time_waited(waited, ENGLISH) == written


CLDR_FORMS = {
    "en": {"one": [1], "other": [0, 2, 3, 10, 11, 71, 100, 120]},
    "fr": {"one": [0, 1], "other": [2, 3, 10, 11, 71, 100, 120]},
    "sw": {"one": [1], "other": [0, 2, 3, 10, 11, 71, 100, 120]},
    "pt": {"one": [1], "other": [0, 2, 3, 10, 11, 71, 100, 120]},
    "ar": {
        "zero": [0],
        "one": [1],
        "two": [2],
        "few": [*range(3, 11), *range(103, 111)],
        "many": [*range(11, 100), *range(111, 121)],
        "other": [100, 101, 102, 200],
    },
}
"""Numbers by their forms, as CLDR has them; Portuguese is that of Portugal, which is spoken in
Africa."""


@pytest.mark.parametrize("code", LANGUAGES)
def test_plurals_follow_cldr(code: str) -> None:
    texts = LANGUAGES[code]
    for form, counts in CLDR_FORMS[code].items():
        assert {texts.plural(each) for each in counts} == {PluralCategory(form)}
    for forms in (texts.minutes, texts.hours):
        assert PluralCategory.OTHER in forms
        assert set(forms) <= {texts.plural(each) for each in range(201)}
        assert fields_of(forms[PluralCategory.OTHER]) == {"count"}


@pytest.mark.parametrize(
    ("code", "left", "written"),
    [
        ("ar", MINUTE, "دقيقة واحدة"),
        ("ar", 2 * MINUTE, "دقيقتان"),
        ("ar", 5 * MINUTE, "٥ دقائق"),
        ("ar", 11 * MINUTE, "١١ دقيقة"),
        ("ar", 100 * MINUTE, "١٠٠ دقيقة"),
        ("ar", 3 * HOUR, "٣ ساعات"),
        ("sw", 3 * HOUR, "masaa 3"),
        ("sw", 5 * MINUTE, "dakika 5"),
        ("fr", 0, "0 min"),
        ("pt", 72 * HOUR, "72 h"),
    ],
)
def test_times_have_the_form_of_their_number(code: str, left: Span, written: str) -> None:
    assert format_time_left(left, LANGUAGES[code]) == written


@pytest.mark.spec("W3")
@pytest.mark.parametrize(
    ("msisdn", "shown", "spoken"),
    [
        ("254712345678", "+254 ••• ••• 678", "6 7 8"),
        ("+254712345678", "+254 ••• ••• 678", "6 7 8"),
        ("201012345678", "+20 •••• ••• 678", "6 7 8"),
        ("27821234567", "+27 ••• ••• 567", "5 6 7"),
        ("22370123456", "+223 •• ••• 456", "4 5 6"),
        ("2250701234567", "+225 •••• ••• 567", "5 6 7"),
        ("0712345678", "0 ••• ••• 678", "6 7 8"),
        ("123456789", "+1 •• ••• 789", "7 8 9"),
        ("12345678", "•••••••8", "8"),
        ("123", "••3", "3"),
    ],
)
def test_a_number_is_known_to_its_owner_only(msisdn: str, shown: str, spoken: str) -> None:
    assert mask_own_number(msisdn) == shown
    assert spoken_suffix(msisdn) == spoken
