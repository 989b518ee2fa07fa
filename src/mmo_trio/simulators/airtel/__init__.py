"""A simulator of Airtel Money."""
