"""Puts a gateway together from its settings: which part gets which."""

from mmo_trio.service.wiring.assemble import assemble, prepare_store
from mmo_trio.service.wiring.workers import BOOK_FILE, book_file

__all__ = ["BOOK_FILE", "assemble", "book_file", "prepare_store"]
