"""The same HTTP handler as an ASGI application, served by Hypercorn."""
