"""The month's books, without I/O: what moved, by completion, signed, with fees, reversals and
sums."""
