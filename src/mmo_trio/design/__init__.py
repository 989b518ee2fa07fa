"""Holds the design system: one stylesheet, the macros that draw its parts, and the geometry of
charts."""
