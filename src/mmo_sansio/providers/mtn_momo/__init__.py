"""Holds the adapter for the MTN MoMo Open API: Collection for pay-ins, Disbursement for
pay-outs."""
