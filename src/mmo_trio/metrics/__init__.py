"""Writes the metrics of the gateway in the Prometheus format."""
