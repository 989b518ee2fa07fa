"""Measures how much there is to read: lines, modules, files entered on a flow, and the wheel."""
