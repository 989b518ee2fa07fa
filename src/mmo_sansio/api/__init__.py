"""The merchant API turns requests into inputs and queries, and replies into responses, without
I/O."""
