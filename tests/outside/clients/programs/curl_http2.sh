#!/bin/sh
# curl --http2, with receiver.py, as curl serves nothing.
set -eu
key="X-Api-Key: $API_KEY"
api="$API_URL/gateway/mmo/v2"
exec 3<&0
python3 -c 'from receiver import *; listen(); report(200, wait_for_callback(), {"status": ""})' <&3 > "$RESULT_FILE" &
until curl -s -o "$RESULT_FILE.none" "http://127.0.0.1:$PORT/"; do sleep 0.1; done
created=$(curl -sS --http2 -w '\n%{http_code}' -H "$key" -H 'Content-Type: application/json' -d "$BODY" \
    "$api/direct/payin/mpesa_ke")
reference=$(printf '%s' "$created" | sed -n 's/.*"gatewayReference":"\([^"]*\)".*/\1/p')
until [ -s "$RESULT_FILE" ]; do sleep 0.1; done
callback=$(sed -n 's/.*"callback": "\([^"]*\)".*/\1/p' "$RESULT_FILE")
found=$(curl -sS --http2 -H "$key" "$api/status/$reference" | sed 's/^{"status":"\([^"]*\)".*/\1/')
printf '{"created":%s,"callback":"%s","found":"%s"}\n' "$(printf '%s' "$created" | tail -n 1)" "$callback" "$found"
wait
