"""Keys at rest: sealed, digested and signed with one master key or, while it is replaced, with two
(A5)."""

from __future__ import annotations

import pytest

from mmo_trio.brands.keyring import KeyRing, SealError, generate_api_key

OLD, NEW = bytes(range(32)), bytes(32)
RING = KeyRing(OLD)


@pytest.mark.spec("A5")
def test_a_sealed_key_opens_for_its_brand_only_and_never_with_another_master_key() -> None:
    sealed = RING.seal("acme", b"key")
    assert RING.unseal("acme", sealed) == b"key"
    assert b"key" not in sealed
    assert sealed != RING.seal("acme", b"key")
    for ring, of, text in (
        (RING, "globex", sealed),
        (KeyRing(NEW), "acme", sealed),
        (RING, "acme", sealed[:-1] + bytes((sealed[-1] ^ 1,))),
        (RING, "acme", b""),
    ):
        assert ring.sealing_key_id(of, text) is None
        with pytest.raises(SealError, match="master key file"):
            ring.unseal(of, text)


def test_digests_need_the_master_key_and_are_not_sealing_keys() -> None:
    assert RING.digest(b"key") == KeyRing(OLD).digest(b"key")
    assert RING.digest(b"key") != KeyRing(NEW).digest(b"key")
    assert len({generate_api_key() for _ in range(100)}) == 100


def test_a_made_key_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["-starts-with-a-dash", "fine"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: next(drawn))
    assert generate_api_key() == "fine"


def test_two_master_keys_are_accepted_and_the_first_is_used() -> None:
    old, new, both = KeyRing(OLD), KeyRing(NEW), KeyRing(NEW, OLD)
    assert both.master_key_id == new.master_key_id != old.master_key_id
    assert both.master_key_ids == [new.master_key_id, old.master_key_id]
    for ring in (old, new):
        sealed = ring.seal("acme", b"key")
        assert both.unseal("acme", sealed) == b"key"
        assert both.sealing_key_id("acme", sealed) == ring.master_key_id
        secret = ring.seal_secret("second factor of ada", b"secret")
        assert both.unseal_secret("second factor of ada", secret) == b"secret"
        assert ring.digest(b"key") in both.digests(b"key")
        assert ring.cursor_keys[0] in both.cursor_keys
        assert ring.audit_key in both.audit_keys
    assert new.unseal("acme", both.seal("acme", b"key")) == b"key"
    assert both.digest(b"key") == new.digest(b"key")
    assert both.cursor_keys[0] == new.cursor_keys[0]
    assert both.audit_key == new.audit_key
    changing = KeyRing(OLD)
    changing.replace(NEW, OLD)
    assert changing.master_key_ids == both.master_key_ids


def test_a_keyring_needs_one_whole_master_key() -> None:
    for keys in ((), (b"short",), (OLD, b"short")):
        with pytest.raises(ValueError, match="master key"):
            KeyRing(*keys)


def test_tokens_of_this_generation_and_the_one_before_pass_with_either_master_key() -> None:
    old, both = KeyRing(OLD), KeyRing(NEW, OLD)
    (first,) = old.webhook_tokens("mpesa")
    assert (len(first), first) == (32, old.webhook_tokens("mpesa", 1)[0])
    second, previous = old.webhook_tokens("mpesa", 2)
    assert previous == first != second
    third, previous = old.webhook_tokens("mpesa", 3)
    assert previous == second
    assert first not in (third, previous), "two generations are valid at a time"
    assert second not in old.webhook_tokens("airtel", 2)
    accepted = both.webhook_tokens("mpesa", 2)
    assert accepted[0] == KeyRing(NEW).webhook_tokens("mpesa", 2)[0]
    assert set(accepted) == {
        *old.webhook_tokens("mpesa", 2),
        *KeyRing(NEW).webhook_tokens("mpesa", 2),
    }
