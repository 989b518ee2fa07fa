"""States and totals are known in the languages of the markets, with and without accents."""

from __future__ import annotations

import unicodedata

import pytest

from mmo_merchant.tables.words import STATUS_WORDS, fold_word, is_total_row, is_total_word
from mmo_sansio.values.model import Status


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("FINISHED", Status.SUCCESS),
        ("Authorised", Status.PENDING),
        ("Succès", Status.SUCCESS),
        ("ECHEC", Status.FAILED),
        ("En attente", Status.PENDING),
        ("Concluída", Status.SUCCESS),
        ("bem-sucedido", Status.SUCCESS),
        ("Falhou", Status.FAILED),
        ("Pendente", Status.PENDING),
        ("Imefanikiwa", Status.SUCCESS),
        ("Imeshindwa", Status.FAILED),
        ("Inasubiri", Status.PENDING),
    ],
)
def test_a_state_is_known(word: str, status: Status) -> None:
    for written in (word, word.upper(), unicodedata.normalize("NFD", word), f" {word} "):
        assert STATUS_WORDS.get(fold_word(written)) is status


def test_a_word_and_its_opposite_are_told_apart() -> None:
    assert "unheard of" not in STATUS_WORDS
    assert "not successful" not in STATUS_WORDS
    assert STATUS_WORDS["unsuccessful"] is Status.FAILED


@pytest.mark.parametrize(
    "word",
    ["Total", "TOTAL:", "Grand Total", "Sub-total", "Total (KES)", "Solde de clôture", "Jumla"],
)
def test_a_total_is_known_by_its_word(word: str) -> None:
    assert is_total_word(word)
    assert is_total_row([word, ""], ["1,500.00"])
    assert is_total_row(["", ""], ["", word, "1,500.00"])


@pytest.mark.parametrize("word", ["TOTAL12345", "Total Energies", "total-1", "sum-1", ""])
def test_a_receipt_that_only_begins_so_is_none(word: str) -> None:
    assert not is_total_row([word], ["x"])


def test_a_row_of_a_payment_is_no_total_whatever_its_text() -> None:
    assert not is_total_row(["A1"], ["Total"])
