"""The operator console, through its own listener."""
