"""Holds pure models of circuit breakers, rate limits, fair queues, channel ownership and clock
trust."""
