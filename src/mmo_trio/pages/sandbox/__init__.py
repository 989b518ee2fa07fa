"""Pages and controls of the sandbox."""
