"""Reads tables that people keep: CSV files and sheets, each cell in one way or with a fault."""
