"""Lists the submissions that the simulated MTN MoMo offers: their paths, the product's account, and
the other party."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen


@frozen
class SubmissionKind:
    """Describes a kind of submission."""

    name: str
    """The name in the book and in a script of faults."""
    product: str
    """The product that offers it; its account pays or is paid."""
    segment: str
    """The last segment of its path."""
    versions: tuple[str, ...]
    party: str | None
    """The member with the other party; None: a refund, whose party is that of the refunded
    payment."""
    is_payin: bool = False
    has_receipt: bool = True
    """Whether its state names a financialTransactionId."""

    @property
    def target_member(self) -> str:
        """The member that a test value is recognized by."""
        return self.party or REFUNDED

    def test_value(self, document: Mapping[str, Any]) -> str:
        """Return the number or id in a submission's body that may be a test value."""
        value = document[self.target_member]
        if self.party:
            return str(value["partyId"])
        return str(value)


# The member of a refund that names the X-Reference-Id of a request to pay.
REFUNDED: Final = "referenceIdToRefund"

# By name.
KINDS: Final[Mapping[str, SubmissionKind]] = MappingProxyType(
    {
        check.name: check
        for check in (
            SubmissionKind(
                "requesttopay", "collection", "requesttopay", ("v1_0",), "payer", is_payin=True
            ),
            SubmissionKind(
                "requesttowithdraw",
                "collection",
                "requesttowithdraw",
                ("v1_0", "v2_0"),
                "payer",
                is_payin=True,
            ),
            SubmissionKind("transfer", "disbursement", "transfer", ("v1_0",), "payee"),
            SubmissionKind(
                "deposit", "disbursement", "deposit", ("v1_0", "v2_0"), "payee", has_receipt=False
            ),
            SubmissionKind("refund", "disbursement", "refund", ("v1_0", "v2_0"), None),
            SubmissionKind("remittance", "remittance", "transfer", ("v1_0",), "payee"),
        )
    }
)

PRODUCTS: Final = tuple(dict.fromkeys(kind.product for kind in KINDS.values()))

# By the path of the submission; its state is below the one of version 1.
KINDS_BY_PATH: Final[Mapping[str, SubmissionKind]] = MappingProxyType(
    {
        f"/{kind.product}/{version}/{kind.segment}": kind
        for kind in KINDS.values()
        for version in kind.versions
    }
)
