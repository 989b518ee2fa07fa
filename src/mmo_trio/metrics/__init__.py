"""Metrics of the gateway in the Prometheus format."""
