"""Defines the texts of the payment page in Portuguese."""

from __future__ import annotations

from mmo_sansio.values.error_codes import ErrorCode, PayerStep
from mmo_sansio.values.number_format import NumberFormat
from mmo_trio.pages.payment.languages.texts import PageTexts, PluralCategory, one_or_other

PORTUGUESE = PageTexts(
    code="pt",
    direction="ltr",
    name="Português",
    numbers=NumberFormat(thousands_separator=".", decimal_separator=",", is_currency_first=False),
    language="Língua",
    title="Pagar {amount} a {brand}",
    with_provider="Com",
    number="Número de telefone",
    ending_in="terminado em {digits}",
    instructions="Vai chegar uma mensagem de {provider} ao {number}.",
    pay="Pagar {amount}",
    time_left="Tempo restante para pagar: {time}",
    plural=one_or_other,
    minutes={PluralCategory.OTHER: "{count} min"},
    hours={PluralCategory.OTHER: "{count} h"},
    sending="O pagamento está a ser enviado para o seu telefone.",
    waiting="Confirme o pagamento no seu telefone com o seu PIN. Esta página será atualizada "
    "automaticamente.",
    slow="Ainda à espera. Pode fechar esta página: a loja será informada do resultado.",
    waited="À espera há {time}",
    no_connection="Sem rede. Esta página continua assim que houver.",
    pin_warning="Escreva o seu PIN apenas no seu telefone. Esta página nunca o pede.",
    check_status="Ver o estado do pagamento",
    paid="Pago",
    not_paid="Não pago",
    unclear="Não se sabe se pagou",
    not_taken="Nenhum dinheiro foi cobrado.",
    amount="Valor",
    order="Para",
    date="Data",
    reference="Referência do pagamento",
    date_time="{day} {month} {year}, {time}",
    months=(
        "jan.",
        "fev.",
        "mar.",
        "abr.",
        "mai.",
        "jun.",
        "jul.",
        "ago.",
        "set.",
        "out.",
        "nov.",
        "dez.",
    ),
    call="Ligar para {number}",
    ask_shop="Perguntar à loja",
    run_by="Página de pagamento de {gateway} para {brand}",
    instructions_elsewhere="Confirma com {provider}, para o {number}. O passo seguinte diz como.",
    asking="{provider} está a ser consultado sobre o pagamento. Esta página será atualizada "
    "automaticamente.",
    elsewhere="Confirme o pagamento com {provider} e volte depois a esta página.",
    go="Continuar para {provider}",
    leads_to="O botão abre {host}.",
    enter_code="Escreva o código que {provider} lhe dá para este pagamento.",
    ask_for_code="Peça o código no menu ou na aplicação de {provider}.",
    code_label="Código",
    code_unusable="Isso não pode ser um código. Escreva-o como o recebeu.",
    steps="Passos do pagamento",
    step_confirm="Confirmar aqui",
    step_pin="PIN no telefone",
    step_done="Concluído",
    no_message=(
        "Sem mensagem? Verifique se {number} é o seu número, e se o telefone está ligado e "
        "tem rede."
    ),
    dial="Ou marque {code} e procure pagamentos em espera.",
    receipt="Número do recibo",
    next_paid="Obrigado. Guarde o número do recibo. Pode fechar esta página.",
    other_device="Pagar no telefone em vez disso",
    scan="Leia o código com a câmara do telefone: esta página abre-se lá.",
    back="Voltar à loja",
    unknown_title="Não há nada a pagar aqui",
    unknown="O link está incompleto ou expirou. Volte à loja e comece de novo.",
    missing_title="Esta página não existe",
    missing="O endereço pode estar incompleto. Volte à loja e abra de novo o link.",
    fault_title="Não funcionou",
    fault="Volte atrás, recarregue a página e tente de novo.",
    busy_title="Um momento, por favor",
    busy="O serviço de pagamento não pode responder agora. Esta página tenta de novo.",
    reasons={
        ErrorCode.USER_INSUFFICIENT_FUNDS: "Não há dinheiro suficiente na sua conta.",
        ErrorCode.USER_TIMEOUT: "O pagamento não foi confirmado a tempo.",
        ErrorCode.USER_CANCELLED: "Cancelou o pagamento.",
        ErrorCode.PROVIDER_UNAVAILABLE: (
            "O serviço de dinheiro móvel não está disponível de momento."
        ),
        ErrorCode.PROVIDER_TIMEOUT: "O serviço de dinheiro móvel demorou demasiado.",
        ErrorCode.TRANSACTION_EXPIRED: "Nenhuma resposta chegou a tempo.",
        ErrorCode.USER_NOT_FOUND: "Não há conta de dinheiro móvel para este número.",
        ErrorCode.USER_ACCOUNT_BLOCKED: "A sua conta não pode ser usada de momento.",
        ErrorCode.USER_LIMIT_EXCEEDED: "Este pagamento excede o limite da sua conta.",
        ErrorCode.USER_WRONG_PIN: "O PIN estava errado.",
        ErrorCode.USER_BUSY: "Há outro pagamento aberto no seu telefone. Termine-o primeiro.",
        ErrorCode.AMOUNT_OUT_OF_RANGE: "Este valor não pode ser pago desta forma.",
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: "O pagamento não pode ser feito de momento.",
        ErrorCode.MERCHANT_MISCONFIGURED: "O pagamento não pode ser feito de momento.",
        ErrorCode.DUPLICATE_REQUEST: "Este pagamento parece igual a um que foi feito há "
        "um momento.",
        ErrorCode.TRANSACTION_DECLINED: "O pagamento foi recusado.",
        ErrorCode.PAYMENT_STOPPED: "O pagamento foi interrompido.",
    },
    next_steps={
        PayerStep.TRY_AGAIN: "Pode tentar de novo: volte à loja.",
        PayerStep.TOP_UP: "Carregue a sua conta e depois comece de novo na loja.",
        PayerStep.CHANGE_NUMBER: "Tentar de novo não vai ajudar. Volte à loja e indique "
        "outro número.",
        PayerStep.ASK_PROVIDER: "Tentar de novo não vai ajudar. Contacte o seu operador ou "
        "pague de "
        "outra forma.",
        PayerStep.ASK_SHOP: "Tentar de novo não vai ajudar. Pergunte à loja como pagar de "
        "outra forma.",
        PayerStep.WAIT: "Veja as mensagens no seu telefone. Não pague outra vez: a loja vai "
        "informá-lo.",
    },
)
