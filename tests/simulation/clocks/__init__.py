"""Gives a simulation its time and its order: one virtual clock, machines whose clocks are wrong,
seeded turns of tasks."""
