"""The documentation of the API consists of error pages and the OpenAPI document."""
