"""Wraps the process and its machine: clocks, identifiers, ciphers, logs, durations and fault
reports."""
