"""Holds what a merchant's program sends, receives and repeats, without I/O."""
