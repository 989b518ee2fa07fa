"""The process and its machine: clock, identifiers, ciphers, logs, latency and faults."""
