"""The Trio shell around :mod:`mmo_sansio`: it waits, retries, times out and cleans up; it never decides about money."""
