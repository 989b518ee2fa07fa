"""Changes the limits and the flows of a brand by the fields of a form, by the same rules as
brands.toml.

A form has a text for each limit, empty where there is none, under the key of the brand's limit or
`NUMBER.CURRENCY.KEY` for a limit of a method, and `on` under `NUMBER.FLOW` for each flow of a
method. Methods are counted from 0."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from attrs import evolve

from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.model import Brand, BrandLimits, Limits, Method, Operation
from mmo_sansio.values.number_format import format_number
from mmo_trio.brands.file import (
    BRAND_LIMIT_FIELDS,
    METHOD_LIMIT_FIELDS,
    field_names,
    flow_fault,
    limit_amounts,
    read_brand_limits,
    read_method_limits,
)

# The limits of a brand that can be edited.
BRAND_LIMITS = field_names(BRAND_LIMIT_FIELDS)

# The limits of a method in one currency that can be edited.
METHOD_LIMITS = field_names(METHOD_LIMIT_FIELDS)


class InvalidEdit(Exception):
    """Reports a limit that cannot be used; the message names the fault and the remedy."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)

        # The name of the form's field.
        self.field = field


# A number with its thousands parted, `1,500,000.00`: one digit too many is seen.
_PARTED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")


def brand_form(brand: Brand) -> Mapping[str, str]:
    """Return the form that changes nothing."""
    form = {key: str(getattr(brand.limits, key) or "") for key in BRAND_LIMITS}
    for number, method in enumerate(brand.methods):
        form |= {f"{number}.{flow.value}": "on" for flow in method.operations}
        for currency, limits in method.limits.items():
            form |= {
                f"{number}.{currency}.{key}": format_number(amount)
                for key, amount in limit_amounts(limits).items()
            }
    return form


def edit_brand(brand: Brand, form: Mapping[str, str], *, elsewhere: Collection[str] = ()) -> Brand:
    """Return the brand with these limits and flows; all else stays. Raises InvalidEdit.

    `elsewhere` are the providers whose payers do not confirm on the phone."""
    # Only limits and flows: whatever else a form holds is not read.
    limits = _brand_limits(form)
    methods = tuple(
        evolve(
            method,
            operations=_flows(number, method, form, elsewhere),
            limits=_method_limits(number, method, form),
        )
        for number, method in enumerate(brand.methods)
    )
    return evolve(brand, limits=limits, methods=methods)


def _flows(
    number: int, method: Method, form: Mapping[str, str], elsewhere: Collection[str]
) -> frozenset[Operation]:
    flows = frozenset(flow for flow in Operation if form.get(f"{number}.{flow.value}") == "on")
    # The rules of the file, and faults at the field of the form.
    if (fault := flow_fault(flows, method.provider, elsewhere)) is not None:
        raise InvalidEdit(f"{number}.{Operation.DIRECT_PAYIN.value}", f"{fault} Use web/payin.")
    return flows


def _brand_limits(form: Mapping[str, str]) -> BrandLimits:
    texts = _given(form, "", BRAND_LIMITS)
    for name, text in texts.items():
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise InvalidEdit(name, f"{text!r} is no whole number. Write digits only.")

    try:
        return read_brand_limits({name: int(text) for name, text in texts.items()})
    except SettingsError as error:
        raise InvalidEdit(error.location, _sentence(error)) from None


def _method_limits(number: int, method: Method, form: Mapping[str, str]) -> Mapping[str, Limits]:
    # Only currencies that the method has: a form adds none.
    tables = {
        currency: _given(form, f"{number}.{currency}.", METHOD_LIMITS) for currency in method.limits
    }
    for currency, texts in tables.items():
        for name in ("min", "max"):
            if name not in texts:
                message = "It is missing. Give a smallest and a largest amount."
                raise InvalidEdit(f"{number}.{currency}.{name}", message)

    try:
        return read_method_limits(tables)
    except SettingsError as error:
        # The location is the place in the table: `KES.max`.
        raise InvalidEdit(f"{number}.{error.location}", _sentence(error)) from None


def _sentence(error: SettingsError) -> str:
    return f"It {error.fault} {error.remedy}".rstrip()


def _given(form: Mapping[str, str], prefix: str, keys: tuple[str, ...]) -> Mapping[str, str]:
    """Return the texts under these keys that are not empty."""
    texts = {key: form.get(f"{prefix}{key}", "").strip() for key in keys}
    return {key: _without_separators(text) for key, text in texts.items() if text}


def _without_separators(text: str) -> str:
    """Return a number without the commas that part its thousands. Any other comma stays, and is
    refused: in many countries it stands before decimals."""
    if _PARTED.fullmatch(text):
        return text.replace(",", "")
    return text
