"""MTN MoMo Open API: pay-ins by `requesttopay` (Collection), pay-outs by `transfer` (Disbursement)."""
