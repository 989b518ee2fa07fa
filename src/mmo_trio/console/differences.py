"""Shows what a change does to a brand: by method, old and new amounts under each other, with what
differs marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from attrs import frozen

from mmo_sansio.values.model import Brand
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import format_amount, format_count
from mmo_trio.brands.description import changed_values, value_text

WHOLE_BRAND = "The brand as a whole"


@frozen
class MarkedText:
    """Holds a value in three parts, of which the middle one differs from the other version."""

    head: str
    marked: str
    tail: str

    @property
    def text(self) -> str:
        """Return the whole value."""
        return self.head + self.marked + self.tail


@frozen
class ShownDifference:
    """Describes one setting that changes."""

    setting: str
    """In the words of the form."""
    before: MarkedText | None
    """None: there was none."""
    after: MarkedText | None
    """None: there is none any more."""
    note: str = ""
    """How much an amount or number grows or shrinks."""
    is_number: bool = False
    members: Sequence[tuple[str, str]] = ()
    """Of a list: each member with `removed`, `added` or nothing."""


def show_differences(before: Brand, after: Brand) -> list[tuple[str, list[ShownDifference]]]:
    """Return what differs between two versions of a brand: what concerns it as a whole, then each
    method."""
    groups: dict[str, list[ShownDifference]] = {}
    for (method, place), old, new in changed_values(before, after):
        difference = _show(_setting_words(place), old, new)
        groups.setdefault(method or WHOLE_BRAND, []).append(difference)

    return list(groups.items())


def summarize(groups: Sequence[tuple[str, Sequence[ShownDifference]]]) -> str:
    """Return what changes in a few words, `Max KES 250,000.00 → 2,500,000.00`; of several settings
    how many they are."""
    differences = [difference for _, group in groups for difference in group]
    if len(differences) != 1:
        return f"{len(differences)} changes"

    return _summarize_one(differences[0])


def list_change_texts(before: Brand, after: Brand) -> Sequence[str]:
    """Return each change between two versions of a brand in a few words, `mpesa_ke: Max KES
    250,000.00 → 2,500,000.00`; of several to one method only the first names it."""
    texts: list[str] = []
    for title, group in show_differences(before, after):
        group_texts = [_summarize_one(difference) for difference in group]
        if title != WHOLE_BRAND:
            group_texts[0] = f"{title}: {group_texts[0]}"

        texts += group_texts

    return texts


def _summarize_one(difference: ShownDifference) -> str:
    setting = difference.setting
    if difference.members:
        return f"{setting}, {_members_words(difference.members)}"

    # Of a limit the setting names the currency already: `Max KES`.
    currency = setting.rpartition(" ")[2]
    values = (difference.before, difference.after)
    texts = ["none" if value is None else value.text for value in values]
    before, after = (text.removeprefix(f"{currency} ") for text in texts)
    return f"{setting} {before} → {after}"


def _members_words(members: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {what}" for name, what in members if what)


def _setting_words(place: str) -> str:
    """Return a place in the file in the words of the form: `limits.KES.max` is `Max KES`,
    `page.support_url` is `Page support url`."""
    # The place of a method's provider is empty, as it stands for the method itself.
    if not place:
        return "Provider"

    table, *names = place.split(".")
    words = [table, *names]
    if table == "limits":
        words = names[::-1]

    text = " ".join(words).replace("_", " ")
    return text[0].upper() + text[1:]


def _show(setting: str, old: Any, new: Any) -> ShownDifference:
    match old, new:
        # Numbers on both sides are compared digit by digit; true and false are none.
        case Money(), Money():
            head = f"{new.currency} "
            texts = (format_amount(amount).removeprefix(head) for amount in (old, new))
            return ShownDifference(
                setting, *_mark(head, *texts), _ratio(old.minor, new.minor), True
            )
        case int(), int() if not isinstance(new, bool):
            return ShownDifference(
                setting, *_mark("", format_count(old), format_count(new)), _ratio(old, new), True
            )
        case frozenset(), frozenset():
            return ShownDifference(setting, None, None, members=list(_members(old, new)))
        # A text, or what one of the versions lacks.
        case _:
            is_amount = isinstance(old, Money) or isinstance(new, Money)
            return ShownDifference(setting, _unmarked(old), _unmarked(new), is_number=is_amount)


def _mark(head: str, old: str, new: str) -> tuple[MarkedText, MarkedText]:
    """Mark two numbers, which end at the same place, up to the end that they have in common."""
    pairs = zip(reversed(old), reversed(new), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return (
        MarkedText(head, old[: len(old) - common], old[len(old) - common :]),
        MarkedText(head, new[: len(new) - common], new[len(new) - common :]),
    )


def _ratio(old: int, new: int) -> str:
    """Return how the new number compares with the old one, `10 × as much`; a zero too many is
    easily overlooked."""
    if old <= 0 or new <= 0:
        return ""
    if max(old, new) < 2 * min(old, new):
        return f"{(new / old - 1) * 100:+.3g} %"
    times = f"{max(old, new) / min(old, new):,.1f}".removesuffix(".0")
    if new > old:
        return f"{times} × as much"
    return f"{times} × less"


def _members(old: frozenset[str], new: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each member of both versions, and what becomes of it."""
    for member in sorted(old | new):
        if member not in new:
            yield member, "removed"
        elif member not in old:
            yield member, "added"
        else:
            yield member, ""


def _unmarked(value: Any) -> MarkedText | None:
    """Return a value of which nothing is marked; None where there is none."""
    if value is None:
        return None

    text = value_text(value)
    if isinstance(value, Money):
        text = format_amount(value)

    return MarkedText("", text, "")
