"""Masks the personal data of what belongs to a payment, in each kind of row that may hold some."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry
from mmo_sansio.payments.personal_data import mask_members, mask_text, mask_transaction, mask_url
from mmo_trio.storage.interface.admin_types import Proposal, SuspenseEntry
from mmo_trio.storage.interface.retention import ArchivedHistory, ArchivedPayment


def mask_line(line: JournalEntry) -> JournalEntry:
    """Return a line of the journal without the texts of people and providers."""
    masked = mask_members(line.detail)
    return line if masked == line.detail else evolve(line, detail=masked)


def mask_callback(callback: CallbackRecorded) -> CallbackRecorded:
    """Return a callback without the query of its URL, texts and the body of the answer."""
    attempt = callback.attempt
    url, detail = mask_url(attempt.url), mask_text(attempt.detail)
    if (url, detail, attempt.body) == (attempt.url, attempt.detail, b""):
        return callback
    return evolve(callback, attempt=evolve(attempt, url=url, detail=detail, body=b""))


def mask_proposal(proposal: Proposal) -> Proposal:
    """Return a decided proposal without what staff has written."""
    return evolve(
        proposal,
        reason=mask_text(proposal.reason),
        evidence=mask_text(proposal.evidence),
        remark=proposal.remark and mask_text(proposal.remark),
    )


def mask_suspense_entry(entry: SuspenseEntry) -> SuspenseEntry:
    """Return a closed entry of the suspense book without the texts of people and providers."""
    return evolve(entry, content=mask_members(entry.content), note=entry.note and mask_text(entry.note))


def mask_payment(payment: ArchivedPayment) -> ArchivedPayment:
    """Return a payment that has ended, and all that belongs to it, without personal data."""
    return ArchivedPayment(
        mask_transaction(payment.transaction),
        tuple((number, mask_line(line)) for number, line in payment.journal),
        tuple((number, mask_callback(callback)) for number, callback in payment.callbacks),
        tuple(map(mask_suspense_entry, payment.suspense)),
        tuple(map(mask_proposal, payment.proposals)),
    )


def mask_history(history: ArchivedHistory) -> ArchivedHistory:
    """Return lines and closed entries that belong to no stored payment without personal data."""
    return ArchivedHistory(
        tuple((number, mask_line(line)) for number, line in history.journal),
        tuple(map(mask_suspense_entry, history.suspense)),
    )
