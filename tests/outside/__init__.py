"""Tests with programs that other people wrote: clients, frameworks, tools, proxies, containers."""
