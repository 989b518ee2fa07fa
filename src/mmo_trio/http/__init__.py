"""HTTP on Trio: the listeners that merchants and providers reach, and the client that reaches out
to them."""
