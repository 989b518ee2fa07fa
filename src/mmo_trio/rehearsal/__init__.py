"""Rehearses an account in an operator's sandbox, step by step, and writes what it has shown."""
