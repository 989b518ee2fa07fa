"""Finds out why the server rejects a connection, in whatever language it says so.

psycopg has no SQLSTATE of a connection that was never made, only the server's sentence in the server's language. libpq
gives the SQLSTATE in its place when it is asked to, by a function that psycopg leaves to ctypes (see its
`pgconn_ptr`). So a connection that has failed is made once more for the sake of the SQLSTATE. Texts of libpq itself,
about TLS, are always in English, as this process sets no locale.
"""

from __future__ import annotations

import asyncio
import ctypes
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

import psycopg
from psycopg import pq
from psycopg.abc import PQGenConn
from psycopg.waiting import Wait, wait_conn_async

SetVerbosity: TypeAlias = Callable[[int, int], int]

_VERBOSITY_SQLSTATE: Final = 3
"""PQERRORS_SQLSTATE of libpq-fe.h."""

_SQLSTATE = re.compile(r":  ([0-9A-Z]{5})$", re.MULTILINE)
_DIAGNOSIS_TIMEOUT_S = 3.0
_POLL_INTERVAL_S = 0.1

INVALID_PASSWORD: Final = "28P01"
INVALID_AUTHORIZATION: Final = "28000"
READ_ONLY: Final = "25006"

_BY_LIBPQ_TEXT: Final = (
    ("no password supplied", INVALID_PASSWORD),
    ("server does not support SSL", INVALID_AUTHORIZATION),
    ("certificate verify failed", INVALID_AUTHORIZATION),
    ("does not match host name", INVALID_AUTHORIZATION),
    ("root certificate file", INVALID_AUTHORIZATION),
    ("session is read-only", READ_ONLY),
    ("server is in hot standby mode", READ_ONLY),
)
"""What libpq itself rejects, and the SQLSTATE that a server would have for it."""


async def find_sqlstate(conninfo: str, error: psycopg.Error) -> str | None:
    """Return the SQLSTATE of a connection that has failed with this error; None when there is none, or it can't be
    learnt."""
    text = str(error)
    for phrase, state in _BY_LIBPQ_TEXT:
        if phrase in text:
            return state
    set_verbosity = _find_verbosity_function()
    if (
        set_verbosity is None or ":  " not in text
    ):  # libpq puts two spaces between a server's "FATAL:" and its sentence.
        return None
    try:
        async with asyncio.timeout(_DIAGNOSIS_TIMEOUT_S):
            answer = await wait_conn_async(_connect_for_answer(conninfo, set_verbosity), _POLL_INTERVAL_S)
    except (psycopg.Error, TimeoutError):
        return None
    found = _SQLSTATE.findall(answer)
    return found[-1] if found else None


@cache
def _find_verbosity_function() -> SetVerbosity | None:
    """Return libpq's PQsetErrorVerbosity, of the libpq that psycopg has loaded; None where it isn't to be had."""
    try:
        function = ctypes.CDLL(sys.modules[pq.PGconn.__module__].__file__).PQsetErrorVerbosity
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return function


def _connect_for_answer(conninfo: str, set_verbosity: SetVerbosity) -> PQGenConn[str]:
    """Connect and disconnect; return what the server said of it, "" when it accepted the connection."""
    pgconn = pq.PGconn.connect_start(conninfo.encode())
    try:
        if pointer := getattr(pgconn, "pgconn_ptr", None):
            set_verbosity(pointer, _VERBOSITY_SQLSTATE)
        while pgconn.status != pq.ConnStatus.BAD:
            match pgconn.connect_poll():
                case pq.PollingStatus.READING:
                    wait = Wait.R
                case pq.PollingStatus.WRITING:
                    wait = Wait.W
                case _:
                    break
            while not (yield pgconn.socket, wait):
                pass
        return pgconn.error_message.decode(errors="replace")
    finally:
        pgconn.finish()
