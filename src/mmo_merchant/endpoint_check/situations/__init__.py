"""Describes what a merchant's endpoint for callbacks should do in each situation, and judges what
it did."""

from __future__ import annotations

from mmo_merchant.endpoint_check.situations.connection_situations import CONNECTION_SITUATIONS
from mmo_merchant.endpoint_check.situations.key_situations import KEY_SITUATIONS
from mmo_merchant.endpoint_check.situations.malformed_situations import MALFORMED_SITUATIONS
from mmo_merchant.endpoint_check.situations.repeat_situations import REPEAT_SITUATIONS
from mmo_merchant.endpoint_check.situations.result_situations import RESULT_SITUATIONS
from mmo_merchant.endpoint_check.situations.situation import Situation

# In the order in which they are played: the first shows whether the endpoint can be reached at all.
SITUATIONS: tuple[Situation, ...] = (
    *KEY_SITUATIONS,
    *RESULT_SITUATIONS,
    *REPEAT_SITUATIONS,
    *MALFORMED_SITUATIONS,
    *CONNECTION_SITUATIONS,
)
