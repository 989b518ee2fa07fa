"""Simulates each operator: its book of accounts and payments, its rules for requests, its
callbacks."""
