"""HTTP on Trio serves the merchants and providers that call the gateway, and calls them in turn."""
