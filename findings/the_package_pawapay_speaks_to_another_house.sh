#!/usr/bin/env bash
# Package: PyPI pawapay 1.0.0
# Expected: The package `pawapay` is a client of pawaPay, whose API is at api.pawapay.io, with
#   deposits, pay-outs and refunds in decimal amounts of some twenty countries.
# Seen: It is a client of another API: its host is api.pawapay.com, its paths are those of
#   /api/v1/payments, its amounts are pesewas (5000 for GHS 50.00) and its networks Ghana's three. A
#   token of pawaPay is refused, as it does not begin with `sk_test_` or `sk_live_`.
# Matters: Who installs it by its name and bends the token sends a key and payers' numbers to a host
#   that is not the operator's, and amounts a hundredfold. Look at a client's host and at the paths
#   that it asks for before it gets a token.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pawapay==1.0.0

cat >"$folder/ask.py" <<'END'
from pawapay import PawaPay

try:
    PawaPay(api_key="eyJexample.of.a.token")
except Exception as error:
    print(type(error).__name__, error)

client = PawaPay(api_key="sk_test_example")
sent = []
client.post = lambda path, data: sent.append((path, data)) or {}
client.momo.charge(amount=5000, phone="0244123456", network="MTN", email="payer@example.com")
print(client.base_url, sent[0][0])
print(sent[0][1]["amount"], sent[0][1]["currency"], client.momo.SUPPORTED_NETWORKS)
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
AuthenticationError Invalid API key format. Key must start with 'sk_test_' or 'sk_live_'
https://api.pawapay.com /api/v1/payments/momo
5000 GHS ['MTN', 'VODAFONE', 'AIRTELTIGO']
END
