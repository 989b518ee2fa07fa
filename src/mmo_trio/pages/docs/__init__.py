"""Holds the pages for developers: error codes and the API reference."""
