"""Puts a gateway together; read `assemble` first, then `providers` and `workers`."""

from mmo_trio.service.wiring.assemble import assemble
from mmo_trio.service.wiring.resources import HttpClients, Resources, build_resources, prepare_store
from mmo_trio.service.wiring.workers import OPERATOR_JOURNAL_FILE, operator_journal_file

__all__ = [
    "OPERATOR_JOURNAL_FILE",
    "HttpClients",
    "Resources",
    "assemble",
    "build_resources",
    "operator_journal_file",
    "prepare_store",
]
