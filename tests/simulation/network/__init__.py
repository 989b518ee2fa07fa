"""Carries the bytes of a simulation between its machines, in memory and in virtual time, as well as
a seed allows."""
