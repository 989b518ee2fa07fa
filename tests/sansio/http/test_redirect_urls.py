"""Where a payer's browser may be sent (C8): never to a script, always as given."""

from __future__ import annotations

import pytest

from mmo_sansio.http.egress_rules import redirect_url_error


@pytest.mark.spec("C8")
@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/done#/paid?x=1",
        "http://localhost:3000/done",
        "https://shop.example/it's",
        "myapp://paid",
        "MyApp:paid",
        "https://shop.example/" + "a" * 2027,
    ],
)
def test_a_redirect_url_may_be_http_https_or_the_brands_own_scheme(url: str) -> None:
    assert redirect_url_error(url, extra_schemes=["MyApp"]) is None


@pytest.mark.spec("C8")
@pytest.mark.parametrize(
    "url",
    [
        pytest.param(url, id=f"row {row}: {ascii(url)[:50]}")
        for row, urls in {
            55: [
                "javascript:alert(1)",
                "JavaScript://a.example/%0aalert(1)",
                "vbscript:x",
                "data:text/html,<b>",
                "data:text/html,b",
                "file:///etc/passwd",
                "\x01javascript:x",
            ],
            56: [
                "https://shop.example/\r\nSet-Cookie: a=b",
                "https://shop.example/<script>",
                'https://shop.example/"onload=x',
                "https://shop.example/ x",
                "java\nscript:alert(1)",
            ],
            57: ["https://shop.example/" + "a" * 2028],
            5: ["/done", "shop.example/done", "//shop.example/done", "", "done"],
            6: ["https://", "https:///done", "https:done", "http:\\\\shop.example"],
            37: ["https://shop.example@evil.example/"],
            2: ["myapp:", "myapp://", "otherapp://paid", "ftp://shop.example/", "blob:x"],
        }.items()
        for url in urls
    ],
)
def test_a_redirect_url_that_could_run_or_mislead_is_refused(url: str) -> None:
    listed = ["myapp", "javascript", "data", "vbscript", "file"]
    fault = redirect_url_error(url, extra_schemes=listed)
    assert fault is not None
    assert fault.endswith(".")
    assert fault.isprintable()


@pytest.mark.spec("C8")
def test_a_fault_names_the_schemes_that_would_do() -> None:
    fault = redirect_url_error("otherapp://x", extra_schemes=["MyApp", "javascript"])
    assert fault == "A redirect URL can't have the scheme otherapp: use one of https, http, myapp."
