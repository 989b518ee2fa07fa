"""The options of a provider: whatever can't be used is named, with what would be right, and no
secret is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from mmo_sansio.providers.common.options import OptionError, Options

CANARY = "canary-5f1e"


def test_options_as_they_are_written() -> None:
    options = Options(
        {"a": " text ", "code": 174379, "u": "https://x.example/", "n": "5", "on": "true", "c": "b"}
    )
    assert options.text("a") == "text"
    assert options.text("code") == "174379"
    assert options.url("u") == "https://x.example"
    assert options.url("v", "http://127.0.0.1:80") == "http://127.0.0.1:80"
    assert options.integer("n") == 5
    assert options.boolean("on", False) is True
    assert options.choice("c", ("a", "b")) == "b"
    assert options.optional_text("none") is None
    options.check_unknown()


@pytest.mark.parametrize(
    ("take", "value"),
    [
        (Options.text, ""),
        (Options.text, ["x"]),
        (Options.url, f"http://x.example/{CANARY}"),
        (Options.url, f"https://{CANARY}@x.example"),
        (Options.integer, f"-1{CANARY}"),
        (lambda options, key: options.boolean(key, False), CANARY),
        (lambda options, key: options.choice(key, ("a", "b")), CANARY),
    ],
)
def test_a_bad_value_is_named_and_not_repeated(take: Any, value: object) -> None:
    with pytest.raises(OptionError) as caught:
        take(Options({"key": value}), "key")
    assert caught.value.key == "key"
    assert caught.value.remedy
    assert CANARY not in str(caught.value)


def test_a_missing_option_and_an_unknown_one_are_named() -> None:
    with pytest.raises(OptionError, match=r"key is missing\. Set key\."):
        Options({}).text("key")
    options = Options({"kye": CANARY})
    options.optional_text("key")
    with pytest.raises(OptionError, match="kye is no option") as caught:
        options.check_unknown()
    assert "Known are: key." in str(caught.value)
    assert CANARY not in str(caught.value) + repr(options)
