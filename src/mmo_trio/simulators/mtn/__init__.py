"""A simulator of MTN MoMo."""
