"""Compares a statement, a merchant's ledger or an operator's, with the records of the gateway,
without I/O."""
