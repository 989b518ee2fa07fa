#!/usr/bin/env bash
# Package: PyPI http-message-signatures 3.0.0, npm http-message-signatures 1.0.6
# Expected: Two packages that implement RFC 9421 sign the same text for the same request.
# Seen: For an address without a path, `@target-uri` has the slash that is sent in one package and not
#   in the other; for one that ends in a question mark, `@request-target` keeps it in one only.
# Matters: A signature that one makes is refused by the other. Write addresses with their path, and
#   without an empty query; or cover `@method`, `@authority`, `@path` and `@query`, which agree.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet http-message-signatures==3.0.0
npm install --silent --no-audit --no-fund http-message-signatures@1.0.6

cat >ask.py <<'END'
from types import SimpleNamespace

from http_message_signatures import HTTPSignatureComponentResolver

NAMES = ("authority", "path", "query", "target_uri", "request_target")
for url in ("https://pay.example/v2", "https://pay.example", "https://pay.example/v2?"):
    request = SimpleNamespace(method="GET", url=url, headers={})
    resolver = HTTPSignatureComponentResolver(request)
    print(url, *(getattr(resolver, f"get_{name}")() for name in NAMES))
END
cat >ask.cjs <<'END'
const { httpbis } = require("http-message-signatures");

const names = ["@authority", "@path", "@query", "@target-uri", "@request-target"];
for (const url of ["https://pay.example/v2", "https://pay.example", "https://pay.example/v2?"]) {
  const request = { method: "GET", url, headers: {} };
  console.log(url, ...names.map((name) => httpbis.deriveComponent(name, new Map(), request)[0]));
}
END

echo "PyPI: address, authority, path, query, target URI, request target" | tee seen
env/bin/python ask.py | tee -a seen
echo "npm: address, authority, path, query, target URI, request target" | tee -a seen
node ask.cjs | tee -a seen
diff - seen <<'END'
PyPI: address, authority, path, query, target URI, request target
https://pay.example/v2 pay.example /v2 ? https://pay.example/v2 /v2
https://pay.example pay.example / ? https://pay.example/ /
https://pay.example/v2? pay.example /v2 ? https://pay.example/v2? /v2?
npm: address, authority, path, query, target URI, request target
https://pay.example/v2 pay.example /v2 ? https://pay.example/v2 /v2
https://pay.example pay.example / ? https://pay.example /
https://pay.example/v2? pay.example /v2 ? https://pay.example/v2? /v2
END
