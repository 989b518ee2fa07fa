"""Plays situations at a merchant's endpoint for callbacks, and judges what it did."""
