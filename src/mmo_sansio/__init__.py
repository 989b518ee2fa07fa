"""The law of a mobile money gateway, without I/O, clock or randomness.

The one drive rule: *decide, make durable, answer, then act.* Start with :class:`mmo_sansio.payments.gateway.Gateway`.
"""

__version__ = "0.1.0"
