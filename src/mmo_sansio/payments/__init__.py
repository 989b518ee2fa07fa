"""Holds the payment state machine: legal transitions, payment rules, ledger and the in-memory
gateway."""
