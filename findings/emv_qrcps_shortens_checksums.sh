#!/usr/bin/env bash
# Package: npm emv-qrcps 0.0.7, with crc 3.8.0
# Expected: The checksum of a QR code always has four digits, as EMVCo's specification says.
# Seen: A checksum that begins with zero is written without it, and with the length 3; so is one in
#   sixteen codes.
# Matters: An app that reads by the specification refuses such a code; read a code that a shop's
#   program has made back before it is shown.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund emv-qrcps@0.0.7 crc@3.8.0

cat >ask.cjs <<'END'
const { Merchant } = require("emv-qrcps");
const { crc16ccitt } = require("crc");

function payload(amount) {
  const account = Merchant.buildMerchantAccountInformation();
  account.setGloballyUniqueIdentifier("com.example");

  const code = Merchant.buildEMVQR();
  code.setPayloadFormatIndicator("01");
  code.setPointOfInitiationMethod("12");
  code.addMerchantAccountInformation("26", account);
  code.setMerchantCategoryCode("5411");
  code.setTransactionCurrency("404");
  code.setTransactionAmount(amount);
  code.setCountryCode("KE");
  code.setMerchantName("A SHOP");
  code.setMerchantCity("NAIROBI");
  return code.generatePayload();
}

console.log("amount, end of the code, checksum of what stands before");
for (const amount of ["103", "104", "124"]) {
  const text = payload(amount);
  const end = text.slice(text.lastIndexOf("NAIROBI") + "NAIROBI".length);
  const before = text.slice(0, text.length - end.length) + "6304";
  console.log(amount, end, crc16ccitt(before).toString(16).toUpperCase().padStart(4, "0"));
}
END

node ask.cjs | tee seen
diff - seen <<'END'
amount, end of the code, checksum of what stands before
103 63049C71 9C71
104 6303282 0282
124 630391B 091B
END
