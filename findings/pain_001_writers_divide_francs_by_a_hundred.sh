#!/usr/bin/env bash
# Package: PyPI sepaxml 2.7.0, npm iso20022.js 0.0.15
# Expected: An amount in the smallest unit of its currency is divided by what ISO 4217 says: not at
#   all for CFA francs (XOF) and Ugandan shillings (UGX), by 1000 for Tunisian dinars (TND).
# Seen: `SepaTransfer.add_payment` and `createSWIFTCreditPaymentInitiation` divide every amount by
#   100: 1500 in XOF becomes InstdAmt 15.00, or 15, as does 1500 in TND.
# Matters: A file of salaries in francs pays a hundredth, and one in dinars ten times as much. Hand
#   over hundredths of every currency, and compare CtrlSum with the pay-roll's own sum.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet sepaxml==2.7.0
npm install --silent --no-audit --no-fund iso20022.js@0.0.15

cat >ask.py <<'END'
import datetime
import re

from sepaxml import SepaTransfer

for currency in ("EUR", "XOF", "TND"):
    bank = {"IBAN": "CI93CI0080111301134291200589", "BIC": "ECOCCIAB"}
    transfer = SepaTransfer({"name": "Shop", "batch": True, "currency": currency, **bank})
    day = datetime.date(2030, 1, 31)
    payment = {"name": "Payee", "amount": 1500, "execution_date": day, "description": "January"}
    transfer.add_payment({**payment, **bank})
    text = transfer.export().decode()
    print("sepaxml", currency, re.search(r"<InstdAmt[^>]*>([^<]*)", text)[1])
END

cat >ask.mjs <<'END'
import { ISO20022 } from "iso20022.js";

const party = {
  name: "Shop",
  id: "SHOP",
  account: { iban: "CI93CI0080111301134291200589" },
  agent: { bic: "ECOCCIABXXX", bankAddress: { country: "CI" } },
  address: { country: "CI" },
};
const writer = new ISO20022({ initiatingParty: party });
for (const currency of ["EUR", "XOF", "UGX", "TND"]) {
  const payment = { type: "swift", direction: "credit", amount: 1500, currency, creditor: party };
  const text = writer.createSWIFTCreditPaymentInitiation([payment]).toString();
  console.log("iso20022.js", currency, text.match(/<InstdAmt[^>]*>([^<]*)/)[1]);
}
END

{ env/bin/python ask.py; node ask.mjs; } | tee seen
diff - seen <<'END'
sepaxml EUR 15.00
sepaxml XOF 15.00
sepaxml TND 15.00
iso20022.js EUR 15
iso20022.js XOF 15
iso20022.js UGX 15
iso20022.js TND 15
END
