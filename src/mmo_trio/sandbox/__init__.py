"""Holds the sandbox: the simulated operator, its clock and journal, the demo brand, a callback
receiver, a local CA."""
