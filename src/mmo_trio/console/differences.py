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
        groups.setdefault(method or WHOLE_BRAND, []).append(_show(_setting_words(place), old, new))
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
    return [
        _summarize_one(difference)
        if index or title == WHOLE_BRAND
        else f"{title}: {_summarize_one(difference)}"
        for title, group in show_differences(before, after)
        for index, difference in enumerate(group)
    ]


def _summarize_one(each: ShownDifference) -> str:
    if each.members:
        return f"{each.setting}, {_members_words(each.members)}"

    texts = ["none" if value is None else value.text for value in (each.before, each.after)]
    currency = each.setting.rpartition(" ")[2]
    before, after = (text.removeprefix(f"{currency} ") for text in texts)
    return f"{each.setting} {before} → {after}"


def _members_words(members: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {what}" for name, what in members if what)


def _setting_words(place: str) -> str:
    """Return a place in the file in the words of the form: `limits.KES.max` is `Max KES`."""
    table, *names = place.split(".")
    words = (
        " ".join([table, *names] if table != "limits" else reversed(names)).replace("_", " ")
        or "provider"
    )
    return words[0].upper() + words[1:]


def _show(setting: str, old: Any, new: Any) -> ShownDifference:
    match old, new:
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
        case _:
            is_amount = isinstance(new if old is None else old, Money)
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
    for value in sorted(old | new):
        yield value, "removed" if value not in new else "added" if value not in old else ""


def _unmarked(value: Any) -> MarkedText | None:
    if value is None:
        return None
    return MarkedText(
        "", format_amount(value) if isinstance(value, Money) else value_text(value), ""
    )
