"""A seeded simulation of the core: merchants, providers, payers, workers that die, and a clock that
jumps.

Everything random comes from the seed, so a failing seed can be played again:

    python -m tests.sansio.simulation SEED

`world` holds the engine, the workers, time and readers; `parties` and `providers` those around the
gateway; `invariants` what must hold, one named function each, with the number of the case or the
clause that it proves; `planted` the bugs that show that it can see. Keys, egress and documents are
of the shell and are proven there.
"""
