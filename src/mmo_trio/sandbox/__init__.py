"""What only a sandbox runs: the simulated operator, its clock, a callback receiver, a local CA."""
