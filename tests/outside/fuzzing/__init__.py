"""Schemathesis against a running sandbox, by the OpenAPI document that it serves."""
