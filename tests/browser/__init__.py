"""What people see, in a real Chromium: `nox -s browser`."""
