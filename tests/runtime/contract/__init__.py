"""Every clause of the specification, through real sockets, against a whole gateway."""
