"""Holds the payment rules: one plain function for each input, from ledger, input and time to a
decision."""
