"""The HTTP/1.1 listener for merchants and providers."""
