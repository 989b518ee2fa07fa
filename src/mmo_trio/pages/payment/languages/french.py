"""Defines the texts of the payment page in French."""

from __future__ import annotations

from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.pages.payment.languages.texts import NumberFormat, PageTexts

FRENCH = PageTexts(
    code="fr",
    direction="ltr",
    name="Français",
    numbers=NumberFormat(thousands_separator="\u202f", decimal_separator=",", is_currency_first=False),
    language="Langue",
    title="Payer {amount} à {brand}",
    to="À",
    with_provider="Avec",
    number="Numéro de téléphone",
    ending_in="se terminant par {digits}",
    instructions=("Vous recevrez un message sur votre téléphone. Confirmez-y le paiement avec votre code PIN."),
    pay="Payer {amount}",
    time_left="Temps restant pour payer : {time}",
    minutes="{count} min",
    hours="{count} h",
    closed="Cette page est fermée. Rien n’a été payé.",
    sending="Le paiement est en cours d’envoi vers votre téléphone.",
    waiting="Confirmez le paiement sur votre téléphone avec votre code PIN. Cette page suivra.",
    pin_warning=("Saisissez votre code PIN sur votre téléphone uniquement, jamais sur une page comme celle-ci."),
    check_status="Voir où en est le paiement",
    paid="Payé. Merci.",
    not_paid="Non payé.",
    back="Retour à la boutique",
    unknown_title="Il n’y a rien à payer ici",
    unknown="Le lien est incomplet ou a expiré. Retournez à la boutique et recommencez.",
    busy_title="Un instant, s’il vous plaît",
    busy="Le service de paiement ne peut pas répondre pour le moment. Cette page réessaie.",
    reasons={
        ErrorCode.USER_INSUFFICIENT_FUNDS: "Il n’y a pas assez d’argent sur votre compte.",
        ErrorCode.USER_TIMEOUT: "Le paiement n’a pas été confirmé à temps.",
        ErrorCode.USER_CANCELLED: "Vous avez annulé le paiement.",
        ErrorCode.PROVIDER_UNAVAILABLE: ("Le service de mobile money n’est pas disponible pour le moment."),
        ErrorCode.PROVIDER_TIMEOUT: ("Le service de mobile money a mis trop de temps. Aucun argent n’a été prélevé."),
        ErrorCode.TRANSACTION_EXPIRED: "Le paiement n’a pas été terminé à temps.",
        ErrorCode.USER_NOT_FOUND: "Il n’y a pas de compte de mobile money pour ce numéro.",
        ErrorCode.USER_ACCOUNT_BLOCKED: ("Votre compte est inutilisable pour le moment. Consultez votre opérateur."),
        ErrorCode.USER_LIMIT_EXCEEDED: "Ce paiement dépasse la limite de votre compte.",
        ErrorCode.USER_WRONG_PIN: "Le code PIN était incorrect.",
        ErrorCode.USER_BUSY: ("Un autre paiement est ouvert sur votre téléphone. Terminez-le d’abord."),
        ErrorCode.AMOUNT_OUT_OF_RANGE: "Ce montant ne peut pas être payé de cette manière.",
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: ("Le paiement ne peut pas être effectué pour le moment."),
        ErrorCode.MERCHANT_MISCONFIGURED: "Le paiement ne peut pas être effectué pour le moment.",
        ErrorCode.DUPLICATE_REQUEST: "Le même paiement a été fait il y a un instant.",
        ErrorCode.TRANSACTION_DECLINED: "Le paiement a été refusé.",
    },
)
