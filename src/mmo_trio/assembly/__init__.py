"""Puts a gateway together from its settings: which part gets which."""

from mmo_trio.assembly.whole import assemble, prepare_store
from mmo_trio.assembly.workers import BOOK_FILE, book_file

__all__ = ["BOOK_FILE", "assemble", "book_file", "prepare_store"]
