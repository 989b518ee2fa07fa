"""A seeded simulation of the core: merchants, providers, payers, workers that die, and a clock that jumps.

Everything random comes from the seed, so a failing seed can be played again:

    python -m tests.sansio.simulation SEED
"""
