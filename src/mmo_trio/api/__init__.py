"""The merchant API and provider webhooks on top of the HTTP listener."""
