"""Helps to test code that uses the core: builders with sensible defaults, and a small world in
virtual time."""

from mmo_sansio.testing.adapter_conformance import (
    ADAPTER_CHECKS,
    AdapterCase,
    AdapterCheck,
    TransparentCiphers,
    check_adapter,
)
from mmo_sansio.testing.builders import (
    KES,
    PROVIDER_TITLE,
    REFERENCE,
    START,
    UNUSED_REFERENCE,
    a_begin_submission,
    a_brand,
    a_confirmation,
    a_create_payment,
    a_deposit,
    a_draft,
    a_method,
    a_party,
    a_resolution,
    a_return,
    a_stop,
    a_transaction,
    a_wake,
    accepted,
    an_attempt,
    callback_concluded,
    cannot_tell,
    failed,
    hinted,
    ledger_with,
    never_received,
    numbered_reference,
    succeeded,
    unreachable,
)
from mmo_sansio.testing.world import (
    DidNotSettle,
    FakeProvider,
    ProviderScript,
    World,
    accepts,
    does_not_answer,
    fails,
    never_receives,
    succeeds,
)

__all__ = [
    "ADAPTER_CHECKS", "KES", "PROVIDER_TITLE", "REFERENCE", "START", "UNUSED_REFERENCE",
    "AdapterCase", "AdapterCheck", "DidNotSettle", "FakeProvider", "ProviderScript",
    "TransparentCiphers", "World", "a_begin_submission", "a_brand", "a_confirmation",
    "a_create_payment", "a_deposit", "a_draft", "a_method", "a_party", "a_resolution",
    "a_return", "a_stop", "a_transaction", "a_wake", "accepted", "accepts", "an_attempt",
    "callback_concluded", "cannot_tell", "check_adapter", "does_not_answer", "failed", "fails",
    "hinted", "ledger_with", "never_received", "never_receives", "numbered_reference",
    "succeeded", "succeeds", "unreachable",
]  # fmt: skip
