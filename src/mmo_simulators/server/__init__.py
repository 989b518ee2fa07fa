"""Serves a simulator on sockets, or on any other streams, and sends its callbacks."""
