"""`python -m mmo_trio.settings` writes the page of the documentation."""

from mmo_trio.settings.describe import settings_page

print(settings_page(), end="")
