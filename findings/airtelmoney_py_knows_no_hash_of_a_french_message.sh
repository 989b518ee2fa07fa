#!/usr/bin/env bash
# Package: PyPI airtelmoney-py 1.0.6
# Expected: `verify_callback_hash` accepts a callback whose hash was made of the transaction as it
#   stands in the body, whatever language its message is in.
# Seen: It writes the transaction anew with `json.dumps`, which escapes every letter that is not
#   ASCII, and blanks and the order of members are Python's own: the hash of "Payé" as it was sent is
#   refused, that of "Paye" accepted. With the escape that it writes itself, it agrees.
# Matters: Where messages are French, as in Gabon or Niger, a genuine result whose hash was made of
#   what was sent is dropped as forged, and its payment stays pending. Make the hash of the bytes of
#   the transaction as they came, and compare that.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet airtelmoney-py==1.0.6

cat >"$folder/ask.py" <<'END'
import base64
import hashlib
import hmac
import json

from airtelmoney.resources.collection import CollectionAPI

KEY = "an-example-key"
BODIES = {
    "ASCII": '{"id":"order-7","message":"Paye 500","status_code":"TS"}',
    "French": '{"id":"order-7","message":"Payé 500","status_code":"TS"}',
    "French, escaped": '{"id":"order-7","message":"Pay\\u00e9 500","status_code":"TS"}',
    "ASCII, with blanks": '{"id": "order-7", "message": "Paye 500", "status_code": "TS"}',
}
for name, text in BODIES.items():
    digest = hmac.new(KEY.encode(), text.encode(), hashlib.sha256).digest()
    callback = {"transaction": json.loads(text), "hash": base64.b64encode(digest).decode()}
    print(f"{name}: {CollectionAPI.verify_callback_hash(callback, KEY)}")
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
ASCII: True
French: False
French, escaped: True
ASCII, with blanks: False
END
