"""`python -m mmo_trio.settings` writes the page of the documentation."""

from mmo_trio.settings.describe import as_page

print(as_page(), end="")
