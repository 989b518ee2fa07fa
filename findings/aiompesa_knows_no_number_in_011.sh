#!/usr/bin/env bash
# Package: PyPI aiompesa 0.0.4, beside phonenumbers 9.0.43 and mpesa-daraja-mcp 0.1.4
# Expected: A mobile number of Safaricom's is one to a client of M-Pesa.
# Seen: `saf_number_fmt` takes no number that begins with 011, nor 0745, 0746, 0748, 0768 or 0769: its
#   pattern is that of 2019. phonenumbers names Safaricom for all of them.
# Matters: Customers with these numbers can't pay. Check the form of a number alone, and leave the
#   operator to the operator: ranges are added, and numbers are carried to others.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-deps aiompesa==0.0.4 mpesa-daraja-mcp==0.1.4
"$folder/env/bin/pip" install --quiet phonenumbers==9.0.43

cat >"$folder/ask.py" <<'END'
import importlib.util
from pathlib import Path
from sysconfig import get_path

import phonenumbers
from phonenumbers import carrier


def load(file):
    """Load a module of a package without the package, which wants an HTTP client as well."""
    spec = importlib.util.spec_from_file_location("module", Path(get_path("purelib")) / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


aiompesa, mcp = load("aiompesa/utils.py"), load("mpesa_mcp/helpers.py")
print("number, its operator by phonenumbers, by mpesa-daraja-mcp, by aiompesa")
for start in ("0712", "0110", "0111", "0745", "0748", "0768"):
    number = f"{start}000001"
    operator = carrier.name_for_number(phonenumbers.parse(number, "KE"), "en")
    print(number, operator, mcp.normalize_phone(number), aiompesa.saf_number_fmt(number)[0])
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
number, its operator by phonenumbers, by mpesa-daraja-mcp, by aiompesa
0712000001 Safaricom 254712000001 254712000001
0110000001 Safaricom 254110000001 None
0111000001 Safaricom 254111000001 None
0745000001 Safaricom 254745000001 None
0748000001 Safaricom 254748000001 None
0768000001 Safaricom 254768000001 None
END
