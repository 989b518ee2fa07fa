"""Reads a merchant's question whose account is behind a number."""

from __future__ import annotations

import re
from typing import Final

from attrs import field, frozen

from mmo_sansio.api.incoming.creation_body import MSISDN_MAX, MSISDN_MIN, MSISDN_PATTERN
from mmo_sansio.api.incoming.query_string import parse_payee_name
from mmo_sansio.values import problems
from mmo_sansio.values.dialling_codes import is_msisdn_of
from mmo_sansio.values.model import Brand, Method, Operation
from mmo_sansio.values.near_match import closest_name
from mmo_sansio.values.problems import FieldError, ProblemError, validation_problem

_MSISDN: Final = re.compile(MSISDN_PATTERN, re.ASCII)


@frozen
class PayeeQuestion:
    """Asks whose account is behind a number to which the brand may pay."""

    brand: Brand
    method: Method
    msisdn: str = field(repr=False)
    name: str = field(repr=False)
    """What the merchant believes; empty for none."""


def parse_payee_question(brand: Brand, method: str, msisdn: str, query: bytes) -> PayeeQuestion:
    """Return the question. Of a method in several countries it is about the one whose number it is.

    Raises ProblemError for a method by which the brand does not pay out, and for a number that is
    none of its countries: an operator is not asked about those that can't be paid."""
    name = parse_payee_name(query)

    # The method first: it has the countries by which the number is judged.
    methods = [
        known
        for known in brand.methods
        if known.key == method and Operation.DIRECT_PAYOUT in known.operations
    ]
    if not methods:
        raise ProblemError(_no_pay_outs(brand, method))

    if not (MSISDN_MIN <= len(msisdn) <= MSISDN_MAX and _MSISDN.fullmatch(msisdn)):
        raise ProblemError(
            _wrong_number(
                "must be digits that begin with the country's code, such as 254708374149."
            )
        )

    # The country's code in the number decides among the countries of one method.
    for offered in methods:
        if is_msisdn_of(offered.country, msisdn):
            return PayeeQuestion(brand, offered, msisdn, name)

    countries = " or ".join(method.country for method in methods)
    raise ProblemError(_wrong_number(f"must be a mobile number of {countries}, with its code."))


def _no_pay_outs(brand: Brand, method: str) -> problems.Problem:
    paying = [
        method.key for method in brand.methods if Operation.DIRECT_PAYOUT in method.operations
    ]

    # A hint names only what the brand itself has.
    meant = closest_name(method, paying)
    if meant:
        hint = f" Did you mean '{meant}'?"
    else:
        hint = ""

    fault = FieldError("method", f"'method' must be one of this brand with direct/payout.{hint}")
    detail = f"This brand has no pay-outs by such a method.{hint}"
    return problems.UNSUPPORTED_METHOD.problem(detail, fault)


def _wrong_number(fault: str) -> problems.Problem:
    return validation_problem([FieldError("msisdn", f"'msisdn' {fault}")])
