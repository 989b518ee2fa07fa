"""Measures the gateway and comparable services, in alternating rounds on one machine."""
