#!/usr/bin/env bash
# Package: PyPI django-mobile-money 1.0.0, with Django 5.2.19 and requests 2.34.2
# Expected: Its view for MTN's callbacks finds the payment by `externalId`, which is the shop's own
#   reference and the only name of a payment in the body that MTN sends: the X-Reference-Id of the
#   request is not repeated (momodeveloper.mtn.com, Collection, request to pay).
# Seen: `MTNMoMoBackend.process_webhook` reads a member `referenceId`, and gives the empty text for a
#   transaction where there is none. The view answers 200, marks its log as processed, and leaves the
#   payment pending; no signal is sent.
# Matters: MTN calls once, so a paid order waits for ever. Ask about each pending payment by
#   `verify_payment`, whose answer has the same form and is taken.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet django-mobile-money==1.0.0 django==5.2.19 requests==2.34.2

cat >"$folder/ask.py" <<'END'
import json

import django
from django.conf import settings

DATABASE = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(
    DATABASES={"default": DATABASE},
    INSTALLED_APPS=["django_mobile_money"],
    ROOT_URLCONF="django_mobile_money.urls",
    ALLOWED_HOSTS=["testserver"],
    MOBILE_MONEY={"MTN_MOMO": {}},
)
django.setup()

from django.core.management import call_command
from django.test import Client
from django_mobile_money.models import MobileTransaction, WebhookLog
from django_mobile_money.utils import create_transaction

ID = "5b1d4f0c-9f0e-4a57-8d6a-3a6c2d1e0f11"
CALLBACK = {
    "financialTransactionId": "23503452",
    "externalId": "order-1",
    "amount": "5000",
    "currency": "UGX",
    "payer": {"partyIdType": "MSISDN", "partyId": "256772000111"},
    "status": "SUCCESSFUL",
}
REQUESTED = {"transaction_id": ID, "status": "pending", "provider_reference": ID}

call_command("migrate", verbosity=0)
requested = REQUESTED | {"message": "", "raw_response": {}}
create_transaction("mtn_momo", "256772000111", 5000, "UGX", "order-1", requested)
for title, body in (("MTN's", CALLBACK), ("with a referenceId", CALLBACK | {"referenceId": ID})):
    answer = Client().post("/webhooks/mtn-momo/", json.dumps(body), "application/json")
    processed = WebhookLog.objects.filter(processed=True).count()
    status = MobileTransaction.objects.get().status
    print(f"{title}: {answer.status_code}, {processed} processed, the payment is {status}")
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
MTN's: 200, 1 processed, the payment is pending
with a referenceId: 200, 2 processed, the payment is success
END
