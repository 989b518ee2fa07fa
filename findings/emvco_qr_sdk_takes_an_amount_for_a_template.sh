#!/usr/bin/env bash
# Package: npm emvco-qr-sdk 1.0.0, beside emvqr 0.0.5
# Expected: Field 54 of a payment's QR code is its amount; the fields that hold others are named in
#   EMVCo's specification, 26 to 51, 62, 64 and 80 to 99.
# Seen: `parseQR` in the mode RAW_OBJECT takes any value apart that could be fields: 2500 is an empty
#   field 25, and 1000 an empty field 10. Read as text, 2500.50 stays.
# Matters: An app sees no amount in a code over 2500 and lets its user type one. Write amounts with
#   their decimals where the currency has some, and try a shop's own codes in the apps of its market.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund emvco-qr-sdk@1.0.0 emvqr@0.0.5 crc@3.8.0

cat >ask.cjs <<'END'
const { crc16ccitt } = require("crc");
const { parseQR, QRParseMode } = require("emvco-qr-sdk");
const emvqr = require("emvqr");

function field(id, value) {
  return id + String(value.length).padStart(2, "0") + value;
}

function payload(amount) {
  const text =
    field("00", "01") + field("01", "12") + field("26", field("00", "com.example")) +
    field("52", "5411") + field("53", "404") + field("54", amount) + field("58", "KE") +
    field("59", "A SHOP") + field("60", "NAIROBI") + "6304";
  return text + crc16ccitt(text).toString(16).toUpperCase().padStart(4, "0");
}

console.log("amount, by emvqr, by emvco-qr-sdk");
for (const amount of ["2500.50", "2500", "1000", "900"]) {
  const read = Object.values(emvqr.decode(payload(amount))).find(({ id }) => id === "54");
  const { 54: other } = parseQR(payload(amount), { parseMode: QRParseMode.RAW_OBJECT });
  console.log(amount, read.data, JSON.stringify(other));
}
END

node ask.cjs | tee seen
diff - seen <<'END'
amount, by emvqr, by emvco-qr-sdk
2500.50 2500.50 "2500.50"
2500 2500 {"25":""}
1000 1000 {"10":""}
900 900 "900"
END
