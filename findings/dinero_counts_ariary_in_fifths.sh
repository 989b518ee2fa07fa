#!/usr/bin/env bash
# Package: npm dinero.js 2.0.2
# Expected: Ariary (MGA) and ouguiya (MRU) have two decimals, as ISO 4217 says.
# Seen: MGA and MRU count in fifths (base 5, exponent 1), and `toDecimal` throws for amounts in them.
# Matters: A shop that keeps amounts in dinero.js can't write ariary or ouguiya into a request, where
#   an amount is a decimal number; a currency of its own, with base 10 and exponent 2, can be written.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund dinero.js@2.0.2

cat >ask.mjs <<'END'
import { dinero, toDecimal, KES, MGA, MRU } from "dinero.js";

function decimal(currency) {
  try {
    return toDecimal(dinero({ amount: 1500, currency }));
  } catch {
    return "throws";
  }
}

console.log("currency, base, exponent, 1500 of its smallest units");
for (const currency of [KES, MGA, MRU, { code: "MGA", base: 10, exponent: 2 }]) {
  console.log(currency.code, currency.base, currency.exponent, decimal(currency));
}
END

node ask.mjs | tee seen
diff - seen <<'END'
currency, base, exponent, 1500 of its smallest units
KES 10 2 15.00
MGA 5 1 throws
MRU 5 1 throws
MGA 10 2 15.00
END
