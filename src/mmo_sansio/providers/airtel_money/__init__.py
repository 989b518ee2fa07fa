"""Holds the adapter of Airtel Money (Airtel Africa Open API): pay-ins by a prompt on the payer's
phone, pay-outs by disbursement."""
