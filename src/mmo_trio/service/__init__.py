"""One gateway process and its supervisor: composition, sockets, start and shutdown."""
