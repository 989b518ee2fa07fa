"""Has pytest show the values that a failing check of the adapter compared."""

import pytest

pytest.register_assert_rewrite("mmo_sansio.testing")
