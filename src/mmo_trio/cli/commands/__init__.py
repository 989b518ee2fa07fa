"""Holds the commands of `mmo`, one module for each."""
