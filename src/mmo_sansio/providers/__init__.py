"""Providers of mobile money: how to speak with each, without speaking. Nothing here sees the ledger."""
