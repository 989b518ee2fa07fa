"""Defines the texts of the payment page in Arabic."""

from __future__ import annotations

from mmo_sansio.values.error_codes import ErrorCode, PayerStep
from mmo_sansio.values.number_format import NumberFormat
from mmo_trio.pages.payment.languages.texts import PageTexts, PluralCategory


def _arabic_plural(count: int) -> PluralCategory:
    """Follow CLDR's rule of Arabic."""
    if count < 3:
        return (PluralCategory.ZERO, PluralCategory.ONE, PluralCategory.TWO)[count]
    rest = count % 100
    if 3 <= rest <= 10:
        return PluralCategory.FEW
    if rest > 10:
        return PluralCategory.MANY
    return PluralCategory.OTHER


ARABIC = PageTexts(
    code="ar",
    direction="rtl",
    name="العربية",
    numbers=NumberFormat(
        thousands_separator="٬", decimal_separator="٫", is_currency_first=False, digits="٠١٢٣٤٥٦٧٨٩"
    ),
    language="اللغة",
    title="ادفع {amount} إلى {brand}",
    with_provider="عبر",
    number="رقم الهاتف",
    ending_in="ينتهي بـ {digits}",
    instructions="ستصل رسالة من {provider} إلى {number}.",
    pay="ادفع {amount}",
    time_left="الوقت المتبقي للدفع: {time}",
    plural=_arabic_plural,
    minutes={
        PluralCategory.ONE: "دقيقة واحدة",
        PluralCategory.TWO: "دقيقتان",
        PluralCategory.FEW: "{count} دقائق",
        PluralCategory.OTHER: "{count} دقيقة",
    },
    hours={
        PluralCategory.ONE: "ساعة واحدة",
        PluralCategory.TWO: "ساعتان",
        PluralCategory.FEW: "{count} ساعات",
        PluralCategory.OTHER: "{count} ساعة",
    },
    sending="يجري إرسال طلب الدفع إلى هاتفك.",
    waiting="أكّد الدفع على هاتفك برقمك السري. ستُحدَّث هذه الصفحة تلقائيًا.",
    slow="ما زلنا ننتظر. يمكنك إغلاق هذه الصفحة: سيُبلَّغ المتجر بالنتيجة.",
    waited="مدة الانتظار: {time}",
    no_connection="لا يوجد اتصال بالشبكة. ستتابع هذه الصفحة عند عودته.",
    pin_warning="اكتب رقمك السري على هاتفك فقط. لن تطلبه منك هذه الصفحة أبدًا.",
    check_status="معرفة حالة الدفع",
    paid="تم الدفع",
    not_paid="لم يتم الدفع",
    unclear="ليس واضحًا هل تم الدفع",
    not_taken="لم يُخصم أي مبلغ.",
    amount="المبلغ",
    order="مقابل",
    date="التاريخ",
    reference="مرجع الدفع",
    date_time="{day} {month} {year}، {time}",
    months=(
        "يناير",
        "فبراير",
        "مارس",
        "أبريل",
        "مايو",
        "يونيو",
        "يوليو",
        "أغسطس",
        "سبتمبر",
        "أكتوبر",
        "نوفمبر",
        "ديسمبر",
    ),
    call="اتصل بالرقم {number}",
    ask_shop="اسأل المتجر",
    run_by="صفحة الدفع من {gateway} لصالح {brand}",
    instructions_elsewhere="ستؤكّد عبر {provider} للرقم {number}. الخطوة التالية تشرح كيف.",
    asking="يجري سؤال {provider} عن الدفع. ستُحدَّث هذه الصفحة تلقائيًا.",
    elsewhere="أكّد الدفع عبر {provider}، ثم عُد إلى هذه الصفحة.",
    go="المتابعة إلى {provider}",
    leads_to="يفتح الزر {host}.",
    enter_code="اكتب الرمز الذي يعطيك إياه {provider} لهذا الدفع.",
    ask_for_code="اطلب الرمز من قائمة {provider} أو من تطبيقه.",
    code_label="الرمز",
    code_unusable="لا يمكن أن يكون هذا رمزًا. اكتبه كما وصلك.",
    steps="خطوات الدفع",
    step_confirm="أكّد هنا",
    step_pin="الرقم السري على هاتفك",
    step_done="تم",
    no_message="لم تصلك رسالة؟ تأكد من أن {number} هو رقمك، وأن هاتفك يعمل ومتصل بالشبكة.",
    dial="أو اطلب {code} وابحث عن عمليات الدفع المنتظرة.",
    receipt="رقم الإيصال",
    next_paid="شكرًا لك. احتفظ برقم الإيصال. يمكنك إغلاق هذه الصفحة.",
    other_device="ادفع من هاتفك بدلًا من ذلك",
    scan="امسح الرمز بكاميرا هاتفك لتفتح هذه الصفحة عليه.",
    back="العودة إلى المتجر",
    unknown_title="لا يوجد ما يُدفع هنا",
    unknown="الرابط غير مكتمل أو انتهت صلاحيته. عُد إلى المتجر وابدأ من جديد.",
    missing_title="هذه الصفحة غير موجودة",
    missing="قد يكون العنوان غير مكتمل. عُد إلى المتجر وافتح رابطه مرة أخرى.",
    fault_title="تعذّر إتمام ذلك",
    fault="عُد إلى الخلف وأعد تحميل الصفحة ثم حاول مرة أخرى.",
    busy_title="لحظة من فضلك",
    busy="خدمة الدفع لا تستطيع الرد الآن. ستحاول هذه الصفحة مرة أخرى.",
    reasons={
        ErrorCode.USER_INSUFFICIENT_FUNDS: "لا يوجد رصيد كافٍ في حسابك.",
        ErrorCode.USER_TIMEOUT: "لم يُؤكَّد الدفع في الوقت المحدد.",
        ErrorCode.USER_CANCELLED: "لقد ألغيت الدفع.",
        ErrorCode.PROVIDER_UNAVAILABLE: "خدمة المحفظة غير متاحة في الوقت الحالي.",
        ErrorCode.PROVIDER_TIMEOUT: "استغرقت خدمة المحفظة وقتًا طويلًا.",
        ErrorCode.TRANSACTION_EXPIRED: "لم يصل أي رد في الوقت المحدد.",
        ErrorCode.USER_NOT_FOUND: "لا توجد محفظة لهذا الرقم.",
        ErrorCode.USER_ACCOUNT_BLOCKED: "لا يمكن استخدام حسابك في الوقت الحالي.",
        ErrorCode.USER_LIMIT_EXCEEDED: "يتجاوز هذا الدفع حدّ حسابك.",
        ErrorCode.USER_WRONG_PIN: "كان الرقم السري خاطئًا.",
        ErrorCode.USER_BUSY: "توجد عملية دفع أخرى مفتوحة على هاتفك. يُرجى إنهاؤها أولًا.",
        ErrorCode.AMOUNT_OUT_OF_RANGE: "لا يمكن دفع هذا المبلغ بهذه الطريقة.",
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: "لا يمكن إتمام الدفع في الوقت الحالي.",
        ErrorCode.MERCHANT_MISCONFIGURED: "لا يمكن إتمام الدفع في الوقت الحالي.",
        ErrorCode.DUPLICATE_REQUEST: "يشبه هذا الدفع عملية دفع أُجريت قبل لحظة.",
        ErrorCode.TRANSACTION_DECLINED: "رُفض الدفع.",
        ErrorCode.PAYMENT_STOPPED: "أُوقف الدفع.",
    },
    next_steps={
        PayerStep.TRY_AGAIN: "يمكنك المحاولة مرة أخرى: عُد إلى المتجر.",
        PayerStep.TOP_UP: "أضف رصيدًا إلى حسابك، ثم ابدأ من جديد في المتجر.",
        PayerStep.CHANGE_NUMBER: "لن تفيد المحاولة مرة أخرى. عُد إلى المتجر وأدخل رقمًا آخر.",
        PayerStep.ASK_PROVIDER: "لن تفيد المحاولة مرة أخرى. اسأل مزود الخدمة أو ادفع بطريقة أخرى.",
        PayerStep.ASK_SHOP: "لن تفيد المحاولة مرة أخرى. اسأل المتجر عن طريقة أخرى للدفع.",
        PayerStep.WAIT: "اطّلع على الرسائل في هاتفك. لا تدفع مرة أخرى: سيخبرك المتجر.",
    },
)
