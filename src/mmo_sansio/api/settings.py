"""Defines the settings of the merchant API."""

from __future__ import annotations

from collections.abc import Collection

from attrs import field, frozen

from mmo_sansio.http.egress_rules import EgressRules


@frozen
class ApiSettings:
    """Holds base addresses, the cursors' keys and what differs from one gateway to another."""

    error_docs_url: str
    """Base of the problems' `type` URIs, without a slash at its end."""
    hpp_url: str
    """Base of the hosted payment page, without a slash at its end."""
    cursor_keys: tuple[bytes, ...] = field(repr=False)
    """The first signs the cursors of the records, all are accepted; the same on every node and after every restart
    (R5)."""
    egress_rules: EgressRules = EgressRules()
    """Where merchants' URLs may lead (C8)."""
    sandbox_scenarios: Collection[str] | None = None
    """The values of `X-Sandbox-Scenario`; None outside the sandbox, where the header means nothing."""
