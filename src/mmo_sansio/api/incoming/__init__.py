"""Reads merchant requests: routes, heads, query strings and bodies become inputs and queries."""
