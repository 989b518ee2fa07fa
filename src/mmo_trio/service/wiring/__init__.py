"""Puts a gateway together from its settings: which part gets which."""

from mmo_trio.service.wiring.assemble import assemble, prepare_store
from mmo_trio.service.wiring.workers import OPERATOR_JOURNAL_FILE, operator_journal_file

__all__ = ["OPERATOR_JOURNAL_FILE", "assemble", "operator_journal_file", "prepare_store"]
