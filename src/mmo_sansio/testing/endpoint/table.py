"""Lists all situations that are played at a merchant's endpoint."""

from __future__ import annotations

from mmo_sansio.testing.endpoint.connections import CONNECTION_SITUATIONS
from mmo_sansio.testing.endpoint.keys import KEY_SITUATIONS
from mmo_sansio.testing.endpoint.malformed import MALFORMED_SITUATIONS
from mmo_sansio.testing.endpoint.repeats import REPEAT_SITUATIONS
from mmo_sansio.testing.endpoint.results import RESULT_SITUATIONS
from mmo_sansio.testing.endpoint.situation import Situation

SITUATIONS: tuple[Situation, ...] = (
    *KEY_SITUATIONS,
    *RESULT_SITUATIONS,
    *REPEAT_SITUATIONS,
    *MALFORMED_SITUATIONS,
    *CONNECTION_SITUATIONS,
)
"""In the order in which they are played: the first shows whether the endpoint can be reached at all."""
