"""ASGI applications: a host for the pages and the console, and the app that answers the API by
HTTP/2."""
