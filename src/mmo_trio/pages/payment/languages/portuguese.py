"""Defines the texts of the payment page in Portuguese."""

from __future__ import annotations

from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.pages.payment.languages.texts import NumberFormat, PageTexts

PORTUGUESE = PageTexts(
    code="pt",
    direction="ltr",
    name="Português",
    numbers=NumberFormat(thousands_separator=".", decimal_separator=",", is_currency_first=False),
    language="Língua",
    title="Pagar {amount} a {brand}",
    to="A",
    with_provider="Com",
    number="Número de telefone",
    ending_in="terminado em {digits}",
    instructions="Vai receber uma mensagem no seu telefone. Confirme aí o pagamento com o seu PIN.",
    pay="Pagar {amount}",
    time_left="Tempo restante para pagar: {time}",
    minutes="{count} min",
    hours="{count} h",
    closed="Esta página foi fechada. Nada foi pago.",
    sending="O pagamento está a ser enviado para o seu telefone.",
    waiting="Confirme o pagamento no seu telefone com o seu PIN. Esta página acompanha.",
    pin_warning="Escreva o seu PIN apenas no seu telefone, nunca numa página como esta.",
    check_status="Ver o estado do pagamento",
    paid="Pago. Obrigado.",
    not_paid="Não pago.",
    back="Voltar à loja",
    unknown_title="Não há nada a pagar aqui",
    unknown="A ligação está incompleta ou expirou. Volte à loja e comece de novo.",
    busy_title="Um momento, por favor",
    busy="O serviço de pagamento não pode responder agora. Esta página tenta de novo.",
    reasons={
        ErrorCode.USER_INSUFFICIENT_FUNDS: "Não há dinheiro suficiente na sua conta.",
        ErrorCode.USER_TIMEOUT: "O pagamento não foi confirmado a tempo.",
        ErrorCode.USER_CANCELLED: "Cancelou o pagamento.",
        ErrorCode.PROVIDER_UNAVAILABLE: ("O serviço de dinheiro móvel não está disponível de momento."),
        ErrorCode.PROVIDER_TIMEOUT: ("O serviço de dinheiro móvel demorou demasiado. Nenhum dinheiro foi retirado."),
        ErrorCode.TRANSACTION_EXPIRED: "O pagamento não foi concluído a tempo.",
        ErrorCode.USER_NOT_FOUND: "Não há conta de dinheiro móvel para este número.",
        ErrorCode.USER_ACCOUNT_BLOCKED: ("A sua conta não pode ser usada de momento. Contacte o seu operador."),
        ErrorCode.USER_LIMIT_EXCEEDED: "Este pagamento excede o limite da sua conta.",
        ErrorCode.USER_WRONG_PIN: "O PIN estava errado.",
        ErrorCode.USER_BUSY: "Há outro pagamento aberto no seu telefone. Termine-o primeiro.",
        ErrorCode.AMOUNT_OUT_OF_RANGE: "Este valor não pode ser pago desta forma.",
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: "O pagamento não pode ser feito de momento.",
        ErrorCode.MERCHANT_MISCONFIGURED: "O pagamento não pode ser feito de momento.",
        ErrorCode.DUPLICATE_REQUEST: "O mesmo pagamento foi feito há um momento.",
        ErrorCode.TRANSACTION_DECLINED: "O pagamento foi recusado.",
    },
)
