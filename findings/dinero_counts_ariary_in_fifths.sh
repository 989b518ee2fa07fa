#!/usr/bin/env bash
# Package: npm dinero.js 2.0.2
# Expected: MGA and MRU have two decimals, as ISO 4217 says.
# Seen: both count in fifths (base 5, exponent 1), and `toDecimal` of any amount of them throws.
# Matters: a shop that keeps amounts in dinero.js can't write an amount in ariary or ouguiya into a
#   request; let it keep the decimal text beside, or give the currency base 10 and exponent 2.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund dinero.js@2.0.2 >/dev/null

cat >ask.mjs <<'END'
import { dinero, toDecimal, KES, MGA, MRU } from "dinero.js";

for (const currency of [KES, MGA, MRU]) {
  let decimal;
  try {
    decimal = toDecimal(dinero({ amount: 1500, currency }));
  } catch {
    decimal = "throws";
  }
  console.log(currency.code, currency.base, currency.exponent, decimal);
}
END

seen=$(node ask.mjs)
printf '%s\n' "$seen"
[ "$seen" = "KES 10 2 15.00
MGA 5 1 throws
MRU 5 1 throws" ]
