"""Pages for developers: error codes and the API reference."""
