"""Defines the texts of the payment page in French."""

from __future__ import annotations

from mmo_sansio.values.error_codes import ErrorCode, PayerStep
from mmo_sansio.values.number_format import NumberFormat
from mmo_trio.pages.payment.languages.texts import PageTexts, PluralCategory


def _zero_and_one(count: int) -> PluralCategory:
    """Follow CLDR's rule of French below a million."""
    if count in (0, 1):
        return PluralCategory.ONE
    return PluralCategory.OTHER


FRENCH = PageTexts(
    code="fr",
    direction="ltr",
    name="Français",
    numbers=NumberFormat(
        thousands_separator="\u202f", decimal_separator=",", is_currency_first=False
    ),
    language="Langue",
    title="Payer {amount} à {brand}",
    with_provider="Avec",
    number="Numéro de téléphone",
    ending_in="se terminant par {digits}",
    instructions="Un message de {provider} arrivera au {number}.",
    pay="Payer {amount}",
    time_left="Temps restant pour payer : {time}",
    plural=_zero_and_one,
    minutes={PluralCategory.OTHER: "{count} min"},
    hours={PluralCategory.OTHER: "{count} h"},
    sending="Le paiement est en cours d’envoi vers votre téléphone.",
    waiting=(
        "Confirmez le paiement sur votre téléphone avec votre code PIN. Cette page se mettra à "
        "jour automatiquement."
    ),
    slow="Toujours en attente. Vous pouvez fermer cette page : la boutique sera informée du "
    "résultat.",
    waited="En attente depuis {time}",
    no_connection="Pas de connexion. Cette page reprendra dès son retour.",
    pin_warning="Saisissez votre code PIN sur votre téléphone uniquement. Cette page ne vous le "
    "demande jamais.",
    check_status="Voir où en est le paiement",
    paid="Payé",
    not_paid="Non payé",
    unclear="On ne sait pas si vous avez payé",
    not_taken="Aucun argent n’a été prélevé.",
    amount="Montant",
    order="Pour",
    date="Date et heure",
    reference="Référence du paiement",
    date_time="{day} {month} {year}, {time}",
    months=(
        "janv.",
        "févr.",
        "mars",
        "avr.",
        "mai",
        "juin",
        "juil.",
        "août",
        "sept.",
        "oct.",
        "nov.",
        "déc.",
    ),
    call="Appeler le {number}",
    ask_shop="Demander à la boutique",
    run_by="Page de paiement de {gateway} pour {brand}",
    instructions_elsewhere=(
        "Vous confirmez avec {provider}, pour le {number}. L’étape suivante vous dit comment."
    ),
    asking="{provider} est interrogé sur le paiement. Cette page se mettra à jour automatiquement.",
    elsewhere="Confirmez le paiement avec {provider}, puis revenez à cette page.",
    go="Continuer vers {provider}",
    leads_to="Le bouton ouvre {host}.",
    enter_code="Saisissez le code que {provider} vous donne pour ce paiement.",
    ask_for_code="Demandez le code dans le menu ou dans l’application de {provider}.",
    code_label="Code de paiement",
    code_unusable="Ce n’est pas un code. Saisissez-le tel que vous l’avez reçu.",
    steps="Étapes du paiement",
    step_confirm="Confirmer ici",
    step_pin="PIN sur le téléphone",
    step_done="Terminé",
    no_message=(
        "Pas de message ? Vérifiez que le {number} est votre numéro, et que votre téléphone "
        "est allumé et a du réseau."
    ),
    dial="Ou composez le {code} et cherchez les paiements en attente.",
    receipt="Numéro de reçu",
    next_paid="Merci. Conservez le numéro de reçu. Vous pouvez fermer cette page.",
    other_device="Payer plutôt sur votre téléphone",
    scan="Scannez le code avec l’appareil photo de votre téléphone : cette page s’y ouvre.",
    back="Retour à la boutique",
    unknown_title="Il n’y a rien à payer ici",
    unknown="Le lien est incomplet ou a expiré. Retournez à la boutique et recommencez.",
    missing_title="Cette page n’existe pas",
    missing="L’adresse est peut-être incomplète. Retournez à la boutique et ouvrez de nouveau "
    "son lien.",
    fault_title="Cela n’a pas fonctionné",
    fault="Revenez en arrière, rechargez la page et réessayez.",
    busy_title="Un instant, s’il vous plaît",
    busy="Le service de paiement ne peut pas répondre pour le moment. Cette page réessaie.",
    reasons={
        ErrorCode.USER_INSUFFICIENT_FUNDS: "Il n’y a pas assez d’argent sur votre compte.",
        ErrorCode.USER_TIMEOUT: "Le paiement n’a pas été confirmé à temps.",
        ErrorCode.USER_CANCELLED: "Vous avez annulé le paiement.",
        ErrorCode.PROVIDER_UNAVAILABLE: (
            "Le service de mobile money n’est pas disponible pour le moment."
        ),
        ErrorCode.PROVIDER_TIMEOUT: "Le service de mobile money a mis trop de temps.",
        ErrorCode.TRANSACTION_EXPIRED: "Aucune réponse n’est arrivée à temps.",
        ErrorCode.USER_NOT_FOUND: "Il n’y a pas de compte de mobile money pour ce numéro.",
        ErrorCode.USER_ACCOUNT_BLOCKED: "Votre compte est inutilisable pour le moment.",
        ErrorCode.USER_LIMIT_EXCEEDED: "Ce paiement dépasse la limite de votre compte.",
        ErrorCode.USER_WRONG_PIN: "Le code PIN était incorrect.",
        ErrorCode.USER_BUSY: (
            "Un autre paiement est ouvert sur votre téléphone. Terminez-le d’abord."
        ),
        ErrorCode.AMOUNT_OUT_OF_RANGE: "Ce montant ne peut pas être payé de cette manière.",
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: (
            "Le paiement ne peut pas être effectué pour le moment."
        ),
        ErrorCode.MERCHANT_MISCONFIGURED: "Le paiement ne peut pas être effectué pour le moment.",
        ErrorCode.DUPLICATE_REQUEST: "Ce paiement ressemble à un autre, fait il y a un instant.",
        ErrorCode.TRANSACTION_DECLINED: "Le paiement a été refusé.",
        ErrorCode.PAYMENT_STOPPED: "Le paiement a été arrêté.",
    },
    next_steps={
        PayerStep.TRY_AGAIN: "Vous pouvez réessayer : retournez à la boutique.",
        PayerStep.TOP_UP: "Rechargez votre compte, puis recommencez dans la boutique.",
        PayerStep.CHANGE_NUMBER: "Réessayer ne servira à rien. Retournez à la boutique et "
        "donnez un "
        "autre numéro.",
        PayerStep.ASK_PROVIDER: "Réessayer ne servira à rien. Consultez votre opérateur ou payez "
        "autrement.",
        PayerStep.ASK_SHOP: "Réessayer ne servira à rien. Demandez à la boutique comment payer "
        "autrement.",
        PayerStep.WAIT: "Lisez les messages sur votre téléphone. Ne payez pas de nouveau : la "
        "boutique vous "
        "informera.",
    },
)
