#!/usr/bin/env bash
# Package: PyPI daraja-v3 0.2.1
# Expected: An account reference of more than the 12 characters that Daraja takes is refused, by a
#   function that is there to validate it.
# Seen: `mpesa.validators.account_reference` drops all characters but letters, digits and hyphens,
#   and then what is behind the twelfth; it raises a ValidationError only where nothing is left.
# Matters: Two orders get one reference on the payer's receipt and in the statement, and can't be told
#   apart there. Keep references of M-Pesa to 12 letters, digits and hyphens.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet daraja-v3==0.2.1

cat >"$folder/ask.py" <<'END'
from mpesa.validators import account_reference

for order in ("INV-2026-001", "INV-2026-0011", "INV-2026-0012", "A/1", "A_1"):
    print(order, account_reference(order))
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
INV-2026-001 INV-2026-001
INV-2026-0011 INV-2026-001
INV-2026-0012 INV-2026-001
A/1 A1
A_1 A1
END
