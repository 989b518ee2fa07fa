"""What the commands share: targets, output, errors and an HTTP client."""
