"""Bugs of the shell that are planted on purpose, one at a time: the judges of simulated worlds have
to find each."""
