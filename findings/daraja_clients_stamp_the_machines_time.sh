#!/usr/bin/env bash
# Package: PyPI daraja-sdk-py 2.0.0, daraja-v3 0.2.1 and mpesa-daraja-mcp 0.1.4
# Expected: The Timestamp of a prompt of M-Pesa, which is part of its password, is the time in Nairobi
#   wherever the machine is, as Daraja is Kenya's.
# Seen: `daraja.utils.generate_timestamp` and `mpesa.validators.passkey_timestamp` write the machine's
#   own time, in a container mostly UTC; `mpesa_mcp.helpers.timestamp` writes Nairobi's.
# Matters: Requests say three hours ago, and what a shop keeps of them does not fit M-Pesa's statement.
#   Run such a client with TZ=Africa/Nairobi.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet daraja-sdk-py==2.0.0 daraja-v3==0.2.1
"$folder/env/bin/pip" install --quiet --no-deps mpesa-daraja-mcp==0.1.4

cat >"$folder/ask.py" <<'END'
import os
from datetime import datetime, timedelta, timezone

from daraja.utils import generate_timestamp
from mpesa.validators import passkey_timestamp
from mpesa_mcp.helpers import timestamp

FUNCTIONS = {
    "daraja-sdk-py": generate_timestamp,
    "daraja-v3": passkey_timestamp,
    "mpesa-daraja-mcp": timestamp,
}
NAIROBI = timezone(timedelta(hours=3))

for package, function in FUNCTIONS.items():
    written = datetime.strptime(function(), "%Y%m%d%H%M%S")
    behind = datetime.now(NAIROBI).replace(tzinfo=None) - written
    print(f"TZ={os.environ['TZ']}", package, f"{round(behind / timedelta(hours=1))} h behind Nairobi")
END

for zone in Africa/Nairobi UTC; do
  TZ=$zone "$folder/env/bin/python" "$folder/ask.py"
done | tee "$folder/seen"
diff - "$folder/seen" <<'END'
TZ=Africa/Nairobi daraja-sdk-py 0 h behind Nairobi
TZ=Africa/Nairobi daraja-v3 0 h behind Nairobi
TZ=Africa/Nairobi mpesa-daraja-mcp 0 h behind Nairobi
TZ=UTC daraja-sdk-py 3 h behind Nairobi
TZ=UTC daraja-v3 3 h behind Nairobi
TZ=UTC mpesa-daraja-mcp 0 h behind Nairobi
END
