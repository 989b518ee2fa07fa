"""ASGI applications: a host for the pages and the console; and HTTP/2 for the merchant API."""
