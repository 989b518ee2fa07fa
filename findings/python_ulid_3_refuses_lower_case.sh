#!/usr/bin/env bash
# Package: PyPI python-ulid 3.2.1 and 4.1.0, npm ulid 3.0.2
# Expected: A ULID reads the same in lower case, as its specification calls it case insensitive.
# Seen: `ULID.from_str` of python-ulid 3 refuses lower case with a ValueError; python-ulid 4 and
#   npm's ulid read it as the same.
# Matters: A gatewayReference that was folded to lower case on its way, as in an address, is found by
#   the gateway and refused by a merchant's program; compare and keep references in upper case.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund ulid@3.0.2

cat >ask.py <<'END'
import sys

from ulid import ULID

for text in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav"):
    try:
        read = ULID.from_str(text).milliseconds
    except ValueError:
        read = "refused"
    print("python-ulid", sys.argv[1], text, read)
END
cat >ask.mjs <<'END'
import { decodeTime } from "ulid";

for (const text of ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav"]) {
  console.log("npm ulid 3.0.2", text, decodeTime(text));
}
END

for version in 3.2.1 4.1.0; do
  python3 -m venv "$version"
  "$version/bin/pip" install --quiet "python-ulid==$version" typing-extensions==4.15.0
  "$version/bin/python" ask.py "$version"
done | tee seen
node ask.mjs | tee -a seen
diff - seen <<'END'
python-ulid 3.2.1 01ARZ3NDEKTSV4RRFFQ69G5FAV 1469922850259
python-ulid 3.2.1 01arz3ndektsv4rrffq69g5fav refused
python-ulid 4.1.0 01ARZ3NDEKTSV4RRFFQ69G5FAV 1469922850259
python-ulid 4.1.0 01arz3ndektsv4rrffq69g5fav 1469922850259
npm ulid 3.0.2 01ARZ3NDEKTSV4RRFFQ69G5FAV 1469922850259
npm ulid 3.0.2 01arz3ndektsv4rrffq69g5fav 1469922850259
END
