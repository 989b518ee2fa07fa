"""The interface of every store, and the types that it speaks in."""
