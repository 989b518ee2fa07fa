#!/usr/bin/env bash
# Package: PyPI camt053 0.0.23, beside pycamt 1.1.1
# Expected: Of an entry of camt.053 that books several payments at once, each payment has the amount
#   that its TxDtls says (AmtDtls/TxAmt).
# Seen: `parse_document` gives each TransactionDetails its references and no amount: only the sum of
#   the entry is left. pycamt gives a transaction with its own amount for each.
# Matters: Who looks for a pay-out of 1000 by its reference and amount finds an entry of 1500. Match
#   such entries by their sum, or read TxAmt from the XML.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet camt053==0.0.23 pycamt==1.1.1

cat >ask.py <<'END'
from camt053 import parse_document
from pycamt.parser import Camt053Parser

PAYMENTS = (("A1", "1000"), ("A2", "500"))
DETAILS = "".join(
    f"<TxDtls><Refs><EndToEndId>{name}</EndToEndId></Refs>"
    f'<AmtDtls><TxAmt><Amt Ccy="XOF">{amount}</Amt></TxAmt></AmtDtls></TxDtls>'
    for name, amount in PAYMENTS
)
BALANCES = "".join(
    f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy='XOF'>{amount}</Amt>"
    "<CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2030-01-31</Dt></Dt></Bal>"
    for code, amount in (("OPBD", 0), ("CLBD", 1500))
)
XML = (
    '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt>'
    "<GrpHdr><MsgId>M1</MsgId><CreDtTm>2030-01-31T18:00:00</CreDtTm></GrpHdr>"
    "<Stmt><Id>S1</Id><CreDtTm>2030-01-31T18:00:00</CreDtTm>"
    f"<Acct><Id><Othr><Id>600997</Id></Othr></Id><Ccy>XOF</Ccy></Acct>{BALANCES}"
    '<Ntry><Amt Ccy="XOF">1500</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts>'
    "<BookgDt><Dt>2030-01-31</Dt></BookgDt><BkTxCd><Prtry><Cd>X</Cd></Prtry></BkTxCd>"
    f"<NtryDtls>{DETAILS}</NtryDtls></Ntry></Stmt></BkToCstmrStmt></Document>"
)

for entry in parse_document(XML).statements[0].entries:
    print("camt053: an entry of", entry.amount)
    for detail in entry.details:
        amounts = [name for name in dir(detail) if "amount" in name]
        print("camt053:", detail.end_to_end_id, amounts or "no amount")
for found in Camt053Parser(XML).get_transactions():
    print("pycamt:", found["EndToEndId"], found["Amount"])
END

env/bin/python ask.py | tee seen
diff - seen <<'END'
camt053: an entry of 1500
camt053: A1 no amount
camt053: A2 no amount
pycamt: A1 1000
pycamt: A2 500
END
