"""What every store must do: one that passes is a `mmo_trio.storage.sql.store.Store`.

    @pytest.mark.parametrize("check", CHECKS)

`fresh()` makes an empty storage and returns a function that opens it, each time as its one serving
process: closing and opening again is a restart. A store that several processes share has to pass
further checks, which open it several times at once, as processes of one gateway do.

    @pytest.mark.parametrize("check", SHARED_CHECKS)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tests.conformance import (
    batches,
    brand_versions,
    claims,
    generations,
    ownership,
    proposals,
    queries,
    retention,
    reversals,
    stored_keys,
    work,
)
from tests.conformance.driver import OpenStore

__all__ = ["CHECKS", "SHARED_CHECKS", "OpenStore", "StoreCheck"]

StoreCheck: TypeAlias = Callable[[OpenStore], Awaitable[None]]

CHECKS: tuple[StoreCheck, ...] = (
    queries.check_empty_store,
    queries.check_payment_survives_restart,
    batches.check_reference_is_consumed,
    batches.check_paid_reference_is_never_used_again,
    batches.check_batches_equal_single_inputs,
    batches.check_batch_is_atomic,
    batches.check_unread_keys_are_not_visible,
    batches.check_abandoned_work_is_claimed_once,
    batches.check_question_goes_on_after_restart,
    batches.check_question_is_concluded_as_it_was_asked,
    batches.check_question_keeps_the_operators_id,
    batches.check_due_transactions,
    claims.check_claim_survives_restart,
    claims.check_claim_settles_once,
    claims.check_open_claims_of_a_payment_are_found_among_many,
    reversals.check_reversal_survives_restart,
    reversals.check_reversals_that_wait_for_approval,
    reversals.check_reversal_that_moved_after_all,
    reversals.check_suspense_entry_of_returned_money,
    reversals.check_pages_of_reversed_payments,
    reversals.check_suspense_entry_of_money_that_did_not_go_back,
    reversals.check_integrity_of_reversals,
    claims.check_listing_begins_where_the_last_one_ended,
    queries.check_records_paging,
    queries.check_records_of_an_emptied_page,
    queries.check_records_bytes,
    queries.check_find_transactions,
    queries.check_suspense_book,
    queries.check_brands_and_keys,
    stored_keys.check_leaked_keys,
    stored_keys.check_master_keys,
    stored_keys.check_resealed_keys,
    queries.check_stuck_transactions,
    queries.check_backlog,
    queries.check_closed_providers,
    queries.check_provider_notes,
    queries.check_provider_balances,
    generations.check_changes_raise_the_generation,
    generations.check_generation_in_use,
    queries.check_closed_store_is_unavailable,
    ownership.check_breakers_survive_restart,
    work.check_clock_records,
    work.check_corrected_times,
    work.check_what_is_held_is_released,
    work.check_audit_log,
    work.check_brand_holds,
    work.check_brand_limits,
    work.check_sealed_audit_keys,
    work.check_users_and_sessions,
    work.check_kept_inputs,
    work.check_sign_in_attempts,
    work.check_second_factors,
    proposals.check_proposals,
    proposals.check_decision_is_recorded_once,
    brand_versions.check_change_needs_two_users,
    brand_versions.check_change_is_reverted_exactly,
    brand_versions.check_overtaken_change_is_not_applied,
    brand_versions.check_what_was_planned_before_undoes_nothing,
    brand_versions.check_a_switch_leaves_the_rest_of_a_brand,
    brand_versions.check_recorded_requests,
    brand_versions.check_refused_requests,
    work.check_payment_search,
    queries.check_payment_selections,
    work.check_work_lists,
    work.check_payment_counts,
    work.check_payment_sums,
    work.check_counts_of_a_selection,
    work.check_changed_counts,
    work.check_simulated_counts,
    retention.check_callback_bodies_are_removed,
    retention.check_personal_data_is_masked,
    retention.check_masked_payment_is_not_remembered,
    retention.check_suspense_data_is_masked,
    retention.check_counts_and_changes_age,
    retention.check_balances_age,
    retention.check_reference_of_a_masked_payment_is_judged_as_before,
    retention.check_masked_deposit_is_not_booked_again,
    retention.check_claim_of_a_masked_payment_is_masked,
    retention.check_retention_state,
)
"""Every check, by itself."""

SHARED_CHECKS: tuple[StoreCheck, ...] = (
    ownership.check_channel_has_one_owner,
    ownership.check_ownership_counts,
    ownership.check_next_owner_goes_on,
    ownership.check_channel_release,
    generations.check_generations_of_several_processes,
    ownership.check_due_transactions_are_shared,
    ownership.check_abandoned_submissions,
    ownership.check_overtaken_batch_is_decided_again,
    claims.check_claim_is_woken_by_one_process,
)
"""The further checks of a store that several processes share."""
