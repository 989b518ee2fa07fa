"""The commands of `mmo`, one module each."""
