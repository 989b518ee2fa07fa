"""The password hasher of tests that are not about its strength: Argon2id at its least cost."""

from __future__ import annotations

from argon2 import PasswordHasher

CHEAP_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
