"""The merchant API as values: requests taken apart, replies rendered."""
