#!/usr/bin/env bash
# Package: PyPI ofxparse 0.21, ofxtools 1.1.1
# Expected: Two readers of OFX statements take one time, with its distance from UTC, for the same
#   moment, as they do for Nairobi's [+3:EAT].
# Seen: A distance with a part of an hour is decimal to ofxparse, and hours and minutes to ofxtools:
#   [+5.75:NPT] is 5:45 or 6:15, and [+5.45:NPT] is 5:27 or 5:45.
# Matters: Lines of a statement move by half an hour, and around midnight into another day. Take the
#   date of such a line from its text, and match payments by reference.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet ofxparse==0.21 ofxtools==1.1.1

cat >"$folder/ask.py" <<'END'
from ofxparse import OfxParser
from ofxtools.Types import DateTime

print("time, in UTC by ofxparse, by ofxtools")
for zone in ("[+3:EAT]", "[+5.75:NPT]", "[+5.45:NPT]"):
    text = f"20261129120000{zone}"
    moments = (OfxParser.parseOfxDateTime(text), DateTime().convert(text))
    print(text, *(f"{moment:%H:%M}" for moment in moments))
END

"$folder/env/bin/python" -W ignore "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
time, in UTC by ofxparse, by ofxtools
20261129120000[+3:EAT] 09:00 09:00
20261129120000[+5.75:NPT] 06:15 05:45
20261129120000[+5.45:NPT] 06:33 06:15
END
