"""What commands print as tables: references can be copied in a narrow terminal, and nothing is
padded in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

REFERENCE = "01M8823X3PT60HV4NEG53YCFK6"
OWN_REFERENCE = "an order with a rather long reference"
COLUMNS = ("created", "gatewayReference", "brand", "merchantReference", "amount", "status", "why")
CODE = (
    "from mmo_sansio.values.model import Status; from mmo_trio.cli.support.output import *;"
    "from mmo_trio.cli.support.tables import *;"
)
TIME, BRAND, WHY = "2026-11-25T00:36:30Z", "a-brand-with-a-name", "provider_unavailable"
ROW = (
    f"'{TIME}', '{REFERENCE}', '{BRAND}', '{OWN_REFERENCE}', '2,450.00\\xa0KES', "
    f"Status.FAILED, '{WHY}'"
)
PAYMENTS = f"{CODE} print_table({COLUMNS}, [[{ROW}]] * 2)"
TIMELINE = (
    f"{CODE} print_table(('when', 'who', 'what happened'), [['{TIME}', 'gateway', 'The provider "
    f"said at last that the"
    " payment had been refused by its payer (user_cancelled).']])"
)
AUDIT = (
    f"{CODE} print_table(('row', 'at', 'actor', 'act', 'about', 'detail'), [[12, '{TIME}', "
    f"'cli:me', 'key_retired',"
    f" 'payment:{REFERENCE}', {{'key': 1, 'leaked': True, 'reason': 'somebody has read the log', "
    f"'x': None}}]])"
)


def printed_to_terminal(columns: int, program: str = PAYMENTS) -> str:
    ours, theirs = pty.openpty()
    terminal = {"COLUMNS": str(columns), "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    environment = os.environ | terminal
    with subprocess.Popen([sys.executable, "-c", program], stdout=theirs, env=environment):
        os.close(theirs)
        printed = b""
        try:
            while data := os.read(ours, 65_536):
                printed += data
        except OSError:  # Linux reports the end of the other side as EIO.
            pass
    os.close(ours)
    return printed.decode()


def plain(printed: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", printed)


def lines_of(program: str, columns: int = 80) -> list[str]:
    """The lines on a terminal so wide, without colours; amounts have a plain space."""
    return plain(printed_to_terminal(columns, program)).replace("\xa0", " ").splitlines()


def piped(program: str) -> str:
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_references_times_codes_and_amounts_are_never_broken(columns: int) -> None:
    lines = lines_of(PAYMENTS, columns)
    for fact in (REFERENCE, OWN_REFERENCE, TIME, BRAND, "2,450.00 KES", WHY, "merchantReference"):
        assert any(fact in line for line in lines)
    assert max(map(len, lines)) <= columns


def test_a_table_that_is_too_wide_becomes_a_paragraph_for_each_row() -> None:
    assert lines_of(PAYMENTS)[:4] == [
        f"created {TIME}   gatewayReference {REFERENCE}",
        f"  brand {BRAND}",
        f"  merchantReference {OWN_REFERENCE}   amount 2,450.00 KES",
        f"  status failed   why {WHY}",
    ]


LISTED = (
    f"{CODE} from mmo_sansio.values.clock import Instant;"
    " from mmo_sansio.values.money import Money; at = Instant(1_795_651_407_123_456);"
    f" entry = ListEntry(at, (status_cell(Status.FAILED, 'user_timeout'), Money(245_000, 'KES'),"
    f" 'order-1'), ('{REFERENCE}', 'acme', None));"
    f" long = ListEntry(at, (status_cell(Status.SUCCESS, None), Money(1_000, 'KES'),"
    f" '{OWN_REFERENCE} and more'), ('{REFERENCE}', 'acme', 'simulated'));"
    f" print_list({COLUMNS}, [[{ROW}]], [entry, long])"
)


def test_a_list_that_is_too_wide_has_two_lines_for_each_and_no_labels() -> None:
    assert lines_of(LISTED) == [
        "2026-11-26 UTC",
        "00:03:27  failed user_timeout  KES 2,450.00  order-1",
        f"          {REFERENCE}  acme",
        "00:03:27  success  KES 10.00  an order with a rather long reference and more",
        f"          {REFERENCE}  acme  simulated",
    ]


def test_what_has_no_room_on_the_first_line_stands_whole_below() -> None:
    lines = lines_of(LISTED, 50)
    assert lines[4:7] == [
        "00:03:27  success  KES 10.00",
        f"          {OWN_REFERENCE} and more",
        f"          {REFERENCE}  acme",
    ]


def test_the_words_of_an_entry_are_broken_between_words_below_it() -> None:
    words = "key 1 · leaked yes · reason somebody has read the log of the proxy in front of it"
    program = (
        f"{CODE} from mmo_sansio.values.clock import Instant; print_list(('at', 'detail'), "
        f"[['x' * 70, '{words}']], [ListEntry(Instant(1_795_651_407_123_456), "
        f"('12', 'key_retired'), (), '{words}')])"
    )
    _, first, *further = lines_of(program, 60)
    assert first == "00:03:27  12  key_retired"
    assert " ".join(" ".join(further).split()) == words
    assert all(line.startswith(" " * 10) for line in further)


def test_a_list_is_a_table_where_there_is_room() -> None:
    lines = lines_of(LISTED, 200)
    assert lines[0].split() == list(COLUMNS)
    assert len(lines) == 2


def test_tables_have_no_microseconds() -> None:
    row = "{'at': '2026-11-25T00:36:30.123456Z', 'note': 'at 2026-11-25T00:36:30.123456Z'}"
    printed = printed_to_terminal(120, f"{CODE} print_rows(('at', 'note'), [{row}], as_json=False)")
    assert plain(printed).splitlines()[1].split("  ")[0] == TIME
    exact = printed_to_terminal(120, f"{CODE} print_rows(('at',), [{row}], as_json=True)")
    assert "30.123456Z" in exact


STATES = (
    f"{CODE} from mmo_sansio.providers.common.interface import AccountState as A;"
    "print_table(('state', 'words'), [[A.REFUSED, 'refused'], [A.WORKS, 'works']])"
)


def test_states_have_a_colour_and_what_others_wrote_has_none() -> None:
    printed = printed_to_terminal(80, STATES)
    assert printed.count("\x1b[31m") == printed.count("\x1b[32m") == 1


@pytest.mark.parametrize("program", [STATES, PAYMENTS, LISTED])
def test_no_color_is_obeyed(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[3[0-9]m", printed_to_terminal(80, program))


def test_nobody_colours_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    printed = piped(STATES)
    assert "\x1b" not in printed


def test_sentences_are_broken_between_words_and_their_times_are_not() -> None:
    lines = lines_of(TIMELINE)
    assert lines[1].startswith(f"{TIME}  gateway  The provider said at last")
    assert lines[2].strip().endswith("(user_cancelled).")


def test_details_of_the_audit_log_stand_behind_it_in_words() -> None:
    printed = plain(printed_to_terminal(80, AUDIT))
    assert f"about payment:{REFERENCE}" in printed
    assert '"leaked": true' in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_fact_longer_than_the_terminal_is_copied_in_one_piece() -> None:
    address = "https://shop.example/" + "a" * 90
    program = (
        f"{CODE} print_table(('member', 'value'), [['status', 'paid'], ['resultUrl', '{address}']])"
    )
    assert lines_of(program) == [
        "status paid",
        f"resultUrl {address}",
    ]


def test_yes_and_no_are_words() -> None:
    program = f"{CODE} print_table(('name', 'open'), [['a', True], ['b', False]])"
    assert [line.split() for line in lines_of(program)] == [
        ["name", "open"],
        ["a", "yes"],
        ["b", "no"],
    ]


@pytest.mark.spec("G6")
def test_json_is_indented_on_a_terminal_and_numbers_keep_their_digits() -> None:
    text = '{"amount":{"value":2450.00,"currency":"KES"},"name":"Zoë"}'
    program = f"{CODE} print_json_text('{text}')"
    assert lines_of(program) == [
        "{",
        '  "amount": {',
        '    "value": 2450.00,',
        '    "currency": "KES"',
        "  },",
        '  "name": "Zoë"',
        "}",
    ]
    assert piped(program) == f"{text}\n"


@pytest.mark.parametrize("columns", [80, 200])
def test_the_status_has_a_colour_in_a_terminal(columns: int) -> None:
    assert "\x1b[31mfailed" in printed_to_terminal(columns)


def test_nothing_is_padded_and_nothing_is_coloured_in_a_pipe() -> None:
    printed = piped(PAYMENTS)
    assert REFERENCE in printed
    assert "\x1b" not in printed
    assert all(line == line.rstrip() for line in printed.splitlines())
