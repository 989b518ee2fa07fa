"""The ASGI applications run under Hypercorn: the API with HTTP/2, the pages and the console."""
