"""Call the merchant API over HTTP, blocking or on Trio and asyncio."""
