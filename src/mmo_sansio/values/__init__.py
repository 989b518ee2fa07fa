"""Defines the values that all else is built from: time, money, the payment model and error
codes."""
