"""Describes what a merchant's endpoint for callbacks should do in each situation, and judges what it did."""
