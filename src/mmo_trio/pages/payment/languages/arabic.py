"""Defines the texts of the payment page in Arabic."""

from __future__ import annotations

from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.pages.payment.languages.texts import NumberFormat, PageTexts

ARABIC = PageTexts(
    code="ar",
    direction="rtl",
    name="العربية",
    numbers=NumberFormat(thousands_separator="٬", decimal_separator="٫", is_currency_first=False, digits="٠١٢٣٤٥٦٧٨٩"),
    language="اللغة",
    title="ادفع {amount} إلى {brand}",
    to="إلى",
    with_provider="عبر",
    number="رقم الهاتف",
    ending_in="ينتهي بـ {digits}",
    instructions="ستصلك رسالة على هاتفك. أكّد الدفع هناك برقمك السري.",
    pay="ادفع {amount}",
    time_left="الوقت المتبقي للدفع: {time}",
    minutes="{count} دقيقة",
    hours="{count} ساعة",
    closed="أُغلقت هذه الصفحة. لم يُدفع شيء.",
    sending="يجري إرسال طلب الدفع إلى هاتفك.",
    waiting="أكّد الدفع على هاتفك برقمك السري. ستتابع هذه الصفحة النتيجة.",
    pin_warning="اكتب رقمك السري على هاتفك فقط، ولا تكتبه أبدًا في صفحة كهذه.",
    check_status="معرفة حالة الدفع",
    paid="تم الدفع. شكرًا لك.",
    not_paid="لم يتم الدفع.",
    back="العودة إلى المتجر",
    unknown_title="لا يوجد ما يُدفع هنا",
    unknown="الرابط غير مكتمل أو انتهت صلاحيته. عُد إلى المتجر وابدأ من جديد.",
    busy_title="لحظة من فضلك",
    busy="خدمة الدفع لا تستطيع الرد الآن. ستحاول هذه الصفحة مرة أخرى.",
    reasons={
        ErrorCode.USER_INSUFFICIENT_FUNDS: "لا يوجد رصيد كافٍ في حسابك.",
        ErrorCode.USER_TIMEOUT: "لم يُؤكَّد الدفع في الوقت المحدد.",
        ErrorCode.USER_CANCELLED: "لقد ألغيت الدفع.",
        ErrorCode.PROVIDER_UNAVAILABLE: "خدمة المحفظة غير متاحة في الوقت الحالي.",
        ErrorCode.PROVIDER_TIMEOUT: "استغرقت خدمة المحفظة وقتًا طويلًا. لم يُخصم أي مبلغ.",
        ErrorCode.TRANSACTION_EXPIRED: "لم يكتمل الدفع في الوقت المحدد.",
        ErrorCode.USER_NOT_FOUND: "لا توجد محفظة لهذا الرقم.",
        ErrorCode.USER_ACCOUNT_BLOCKED: ("لا يمكن استخدام حسابك في الوقت الحالي. يُرجى سؤال مزود الخدمة."),
        ErrorCode.USER_LIMIT_EXCEEDED: "يتجاوز هذا الدفع حدّ حسابك.",
        ErrorCode.USER_WRONG_PIN: "كان الرقم السري خاطئًا.",
        ErrorCode.USER_BUSY: "توجد عملية دفع أخرى مفتوحة على هاتفك. يُرجى إنهاؤها أولًا.",
        ErrorCode.AMOUNT_OUT_OF_RANGE: "لا يمكن دفع هذا المبلغ بهذه الطريقة.",
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: "لا يمكن إتمام الدفع في الوقت الحالي.",
        ErrorCode.MERCHANT_MISCONFIGURED: "لا يمكن إتمام الدفع في الوقت الحالي.",
        ErrorCode.DUPLICATE_REQUEST: "أُجري الدفع نفسه قبل لحظة.",
        ErrorCode.TRANSACTION_DECLINED: "رُفض الدفع.",
    },
)
