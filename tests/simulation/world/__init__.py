"""A simulated world: gateway processes as they ship, and everything outside of them, played from a
seed."""
