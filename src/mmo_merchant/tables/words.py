"""Reads words of people's tables: states of payments and rows of totals, in English, French,
Portuguese and Swahili."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from mmo_sansio.values.model import Status

_SPACES: Final = re.compile(r"[\s_-]+")
_DIGIT: Final = re.compile(r"[0-9]", re.ASCII)

# A currency behind a total: `TOTAL (KES)`.
_CODE_AT_END: Final = re.compile(r" \(?[a-z]{3}\)?$", re.ASCII)


def fold_word(text: str) -> str:
    """Return a word without capitals, accents and what stands at its end."""
    # NFKD parts an accent from its letter, so that it can be left out.
    bare = "".join(
        character
        for character in unicodedata.normalize("NFKD", text.casefold())
        if not unicodedata.combining(character)
    )
    return _SPACES.sub(" ", bare).strip(" .:!=")


def _folded(words: str, status: Status) -> dict[str, Status]:
    return {fold_word(word): status for word in words.split(",")}


# The states that words of operators' and merchants' tables stand for, folded.
STATUS_WORDS: Final = MappingProxyType(
    {
        # English, and the codes of Airtel.
        **_folded(
            "success,successful,successfully,succeeded,completed,complete,paid,settled,finished,"
            "approved,ts",
            Status.SUCCESS,
        ),
        **_folded(
            "failed,failure,unsuccessful,declined,cancelled,canceled,expired,rejected,reversed,"
            "timed out,timeout,error,tf",
            Status.FAILED,
        ),
        **_folded(
            "pending,in progress,processing,initiated,authorized,authorised,submitted,queued,"
            "tip,ta",
            Status.PENDING,
        ),
        # French.
        **_folded(
            "succès,réussi,réussie,effectué,effectuée,terminé,terminée,payé,payée,validé,validée,"
            "abouti,aboutie,accepté,acceptée,complété,complétée,réglé,réglée",
            Status.SUCCESS,
        ),
        **_folded(
            "échec,échoué,échouée,refusé,refusée,rejeté,rejetée,annulé,annulée,expiré,expirée,"
            "décliné,déclinée,non abouti,non aboutie,remboursé,remboursée,erreur",
            Status.FAILED,
        ),
        **_folded(
            "en attente,en cours,en cours de traitement,en traitement,initié,initiée,autorisé,"
            "autorisée",
            Status.PENDING,
        ),
        # Portuguese.
        **_folded(
            "sucesso,com sucesso,bem sucedido,bem sucedida,concluído,concluída,completo,completa,"
            "completado,completada,efetuado,efetuada,efectuado,efectuada,pago,paga,finalizado,"
            "finalizada,realizado,realizada,liquidado,liquidada,aprovado,aprovada",
            Status.SUCCESS,
        ),
        **_folded(
            "falha,falhou,falhado,falhada,fracassado,fracassada,recusado,recusada,rejeitado,"
            "rejeitada,cancelado,cancelada,anulado,anulada,expirado,expirada,estornado,estornada,"
            "revertido,revertida,sem sucesso,mal sucedido,mal sucedida,erro",
            Status.FAILED,
        ),
        **_folded(
            "pendente,em curso,em processamento,em andamento,iniciado,iniciada,autorizado,"
            "autorizada,a processar",
            Status.PENDING,
        ),
        # Swahili.
        **_folded(
            "imefanikiwa,umefanikiwa,yamefanikiwa,amefanikiwa,mafanikio,imekamilika,umekamilika,"
            "yamekamilika,imelipwa,yamelipwa",
            Status.SUCCESS,
        ),
        **_folded(
            "imeshindwa,umeshindwa,imeshindikana,yameshindikana,imefeli,haikufanikiwa,"
            "hayakufanikiwa,imekataliwa,imeghairiwa,imefutwa,imesitishwa,imerudishwa,imeisha muda",
            Status.FAILED,
        ),
        **_folded(
            "inasubiri,unasubiri,yanasubiri,inasubiriwa,inaendelea,inashughulikiwa,inachakatwa,"
            "haijakamilika",
            Status.PENDING,
        ),
    }
)

# Whether money came in, by words of a column of its own, folded.
DIRECTION_WORDS: Final = MappingProxyType(
    {
        **dict.fromkeys(
            map(
                fold_word,
                (
                    *("credit", "cr", "in", "incoming", "received", "paid in", "deposit"),
                    *("collection", "payin", "pay in", "crédit", "entrée", "dépôt", "encaissement"),
                    *("crédito", "entrada", "depósito", "mapokezi"),
                ),
            ),
            True,
        ),
        **dict.fromkeys(
            map(
                fold_word,
                (
                    *("debit", "dr", "out", "outgoing", "sent", "paid out", "payout", "pay out"),
                    *("disbursement", "refund", "withdrawal", "withdrawn", "débit", "sortie"),
                    *("décaissement", "retrait", "remboursement", "débito", "saída", "reembolso"),
                ),
            ),
            False,
        ),
    }
)

# Words of rows that are no payments. A word that is missing here costs a fault, and no payment.
_TOTALS: Final = frozenset(
    map(
        fold_word,
        (
            *("total", "totals", "grand total", "sub total", "subtotal", "subtotals", "sum"),
            *("total amount", "net total", "overall total", "page total", "total paid"),
            *("balance", "opening balance", "closing balance", "balance brought forward"),
            *("balance carried forward", "brought forward", "carried forward"),
            *("totaux", "total général", "sous total", "somme", "montant total", "solde"),
            *("solde initial", "solde final", "solde d'ouverture", "solde de clôture"),
            *("total geral", "totais", "soma", "montante total", "valor total", "saldo"),
            *("saldo inicial", "saldo final", "saldo anterior"),
            *("jumla", "jumla kuu", "jumla ndogo", "salio", "salio la awali", "salio la mwisho"),
        ),
    )
)


def is_total_word(text: str) -> bool:
    """Tell whether a cell says that its row has a total or a balance: `Total`, `TOTAL (KES):`."""
    # Most cells have a digit, and no total's word has one: only the others are folded.
    if _DIGIT.search(text) is not None:
        return False

    folded = fold_word(text)
    return folded in _TOTALS or _CODE_AT_END.sub("", folded) in _TOTALS


def is_total_row(keys: Iterable[str], others: Iterable[str]) -> bool:
    """Tell whether a row is about no payment but about a total: its word may stand in any cell, and
    no cell has what a payment is known by."""
    # What a payment is known by must be blank here, or a total's word itself.
    named = [key for key in keys if key]
    if not all(map(is_total_word, named)):
        return False
    return bool(named) or any(map(is_total_word, others))
