"""Which URLs a merchant may give (C8, K7): the table of hostile values, row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.http.egress_rules import (
    EgressRules,
    UrlError,
    UrlTarget,
    delivery_url_error,
    parse_result_host,
    parse_url,
    redirect_url_error,
    result_host_error,
)

RULES = EgressRules(own_hosts=frozenset({"api.gateway.example", "pay.gateway.example"}))
PRIVATE = EgressRules(allow_private=True, own_hosts=frozenset({"127.0.0.1:8080", "[::1]:8080"}))

REFUSED: dict[int, list[str]] = {
    1: ["http://merchant.example/cb"],
    2: [
        "ftp://a.example/",
        "file:///etc/passwd",
        "gopher://a.example/",
        "javascript:alert(1)",
        "data:text/html,x",
        "ws://a.example/",
        "wss://a.example/",
        "unix:/run/x",
    ],
    3: ["", "   "],
    4: ["https://merchant.example/" + "a" * 2024, "https://" + "a" * 100_000],
    5: ["/relative/path", "merchant.example/cb", "//merchant.example/cb", "https", "?a=b"],
    6: [
        "https://",
        "https:///cb",
        "https:merchant.example",
        "https:/merchant.example",
        "https://:1",
    ],
    7: ["https://127.0.0.1/", "https://127.255.255.254/"],
    8: ["https://localhost/", "https://LOCALHOST./", "https://foo.localhost/"],
    9: ["https://127.1/", "https://0/", "https://0.0.0.0/", "https://0.1.2.3/"],
    12: ["https://0177.0.0.1/", "https://017700000001/"],
    14: [
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://172.31.255.255/",
        "https://192.168.1.1/",
    ],
    15: ["https://169.254.169.254/latest/meta-data/"],
    16: ["https://2852039166/", "https://0xa9fea9fe/", "https://0XA9.0376.43518/"],
    17: ["https://169.254.170.2/"],
    19: ["https://168.63.129.16/"],
    21: [
        "https://metadata.google.internal/",
        "https://metadata/",
        "https://x.internal/",
        "https://x.local/",
        "https://x.home.arpa/",
        "https://intranet/",
        "https://X.LOCAL./",
    ],
    22: ["https://100.64.0.1/"],
    23: [
        "https://192.0.0.8/",
        "https://192.0.2.1/",
        "https://198.51.100.1/",
        "https://203.0.113.1/",
    ],
    24: ["https://198.18.0.1/"],
    25: ["https://192.88.99.1/"],
    26: [
        "https://224.0.0.1/",
        "https://239.1.1.1/",
        "https://240.0.0.1/",
        "https://255.255.255.255/",
    ],
    27: ["https://[::1]/", "https://[::]/"],
    28: [
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::ffff:169.254.169.254]/",
    ],
    29: ["https://[::127.0.0.1]/", "https://[::a9fe:a9fe]/"],
    31: ["https://[64:ff9b::a9fe:a9fe]/", "https://[64:ff9b:1::1]/"],
    32: ["https://[2002:a9fe:a9fe::1]/", "https://[2002:7f00:1::]/"],
    34: [
        "https://[fe80::1]/",
        "https://[fe80::1%25eth0]/",
        "https://[2606:4700::1%25eth0]/",
        "https://[febf::1]/",
    ],
    35: ["https://[fc00::1]/", "https://[fd00:ec2::254]/"],
    37: [
        "https://user:pw@merchant.example/",
        "https://merchant.example@127.0.0.1/",
        "https://@merchant.example/",
    ],
    39: [
        "https://merchant.example#@127.0.0.1/",
        "https://merchant.example/cb#",
        "https://a.example/#x",
    ],
    40: [f"https://merchant.example:{port}/" for port in ("99999", "0", "-1", "abc", "443:443")]
    + ["https://merchant.example:65536/", "https://merchant.example:٤٤٣/", "https://[2606::1]443/"],
    42: ["https://[::1", "https://]/", "https://[v1.fe]/", "https://[]/", "https://[[2606::1]]/"],
    43: [
        "https://exa mple.com/",
        "https://a.example\r\nX: y",
        "https://a.exa\tmple/",
        "ht\ntps://a.example/",
        "https://a.example/\x7f",
        "https://a.example/\u2028",
    ],
    44: [
        " https://a.example/",
        "https://a.example/ ",
        "https://a.example/\n",
        "\ufeffhttps://a.example/",
        "https://a.exam\u200bple/",
        "https://a.example/\u202e",
    ],
    46: [
        f"https://{'a' * 64}.example/",
        f"https://{'a.' * 124}example/",
        "https://a..b/",
        "https://-a.example/",
        "https://a-.example/",
        "https://_.example/",
        "https://__/",
        "https://a.example../",
        "https://./",
        "https://.example/",
        "https://a*.example/",
    ],
    47: ["https://a.example/\u0000", "https://a.example/\ud800"],
    49: ["https://api.gateway.example/", "https://PAY.gateway.example.:8443/x"],
}
"""By the row numbers of the table; values of other types than text are the parser's to refuse."""

CASES = [
    pytest.param(url, id=f"row {row}: {ascii(url)[:60]}")
    for row, urls in REFUSED.items()
    for url in urls
]


@pytest.mark.spec("C8", "K7")
@pytest.mark.parametrize("url", CASES)
def test_a_url_of_the_table_is_refused_in_one_sentence(url: str) -> None:
    fault = delivery_url_error(url, rules=RULES)
    assert fault is not None
    assert fault.endswith(".")
    assert fault.isprintable()
    assert len(fault) < 400


@pytest.mark.spec("C8")
@pytest.mark.parametrize("rest", ["/%zz", "/100%", "/%2", "/%%41", "/?a=%é1", "/?a=%2G", "/%４1"])
def test_two_hexadecimal_digits_follow_each_percent_sign(rest: str) -> None:
    faults = {
        delivery_url_error(f"https://merchant.example{rest}", rules=RULES),
        redirect_url_error(f"https://merchant.example{rest}", extra_schemes=[]),
        redirect_url_error(f"https://merchant.example/#{rest}", extra_schemes=[]),
        redirect_url_error(f"myapp:/{rest}", extra_schemes=["myapp"]),
    }
    assert faults == {
        "In a URL two hexadecimal digits follow each '%': write %25 for the sign itself."
    }


@pytest.mark.spec("C8", "K7")
@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://merchant.example/cb", id="plain"),
        pytest.param("HTTPS://Merchant.Example/CB?a=b&c=%2F", id="letter case and query"),
        pytest.param(
            "https://merchant.example/100%25?a=%c3%A9", id="percent-encoded in either case"
        ),
        pytest.param("https://merchant.example", id="no path"),
        pytest.param("https://merchant.example./cb", id="row 46: one final dot"),
        pytest.param("https://merchant.example:8443/cb", id="port"),
        pytest.param("https://merchant.example:/cb", id="empty port"),
        pytest.param("https://merchant.example/" + "a" * 2023, id="row 4: 2048 characters"),
        pytest.param("https://merchant.example/" + "é" * 2023, id="row 4: 2048 code points"),
        pytest.param("https://8.8.8.8/cb", id="public IPv4"),
        pytest.param("https://[2606:4700::1111]:444/", id="public IPv6"),
        pytest.param("https://bücher.example/ü", id="U-label"),
        pytest.param("https://xn--bcher-kva.example/", id="A-label"),
        pytest.param("https://my_shop.merchant.example/", id="inner underscore"),
        pytest.param("https://internal.example/", id="special word elsewhere"),
        pytest.param("https://localhost.merchant.example/", id="localhost as a label"),
        pytest.param("https://10.0.0.1.merchant.example/", id="digits in a name"),
        pytest.param("https://merchant.example/?to=user@x.example", id="at sign behind the host"),
        pytest.param("https://127.0.0.1.nip.io/", id="row 50: refused when dialled"),
        pytest.param("https://localtest.me/", id="row 50: refused when dialled, too"),
    ],
)
def test_a_good_url_is_accepted(url: str) -> None:
    assert delivery_url_error(url, rules=RULES) is None


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:9443/cb",
        "https://shop.localhost/",
        "https://127.0.0.1:9443/",
        "https://127.1/",
        "https://[::1]/",
        "https://10.1.2.3/",
        "https://[fd12::1]/",
    ],
)
def test_allow_private_permits_loopback_private_and_unique_local_hosts(url: str) -> None:
    assert delivery_url_error(url, rules=PRIVATE) is None


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "https://metadata.google.internal/",
        "https://metadata/",
        "https://169.254.169.254/",
        "https://[fd00:ec2::254]/",
        "https://168.63.129.16/",
        "https://100.100.100.200/",
        "https://[fe80::1]/",
        "https://printer.local/",
    ],
)
def test_allow_private_permits_nothing_else(url: str) -> None:
    assert delivery_url_error(url, rules=PRIVATE) is not None


@pytest.mark.spec("K7")
def test_an_own_host_with_a_port_stands_for_that_port_only() -> None:
    assert delivery_url_error("https://127.0.0.1:8080/", rules=PRIVATE) is not None
    assert delivery_url_error("https://127.1:8080/", rules=PRIVATE) is not None
    assert delivery_url_error("https://[::1]:8080/", rules=PRIVATE) is not None
    assert delivery_url_error("https://127.0.0.1:8081/", rules=PRIVATE) is None


@pytest.mark.spec("K7")
def test_only_the_allowed_ports_may_be_named() -> None:
    rules = EgressRules(allowed_ports=frozenset({443, 8443}))
    assert delivery_url_error("https://merchant.example/", rules=rules) is None
    assert delivery_url_error("https://merchant.example:8443/", rules=rules) is None
    assert delivery_url_error("https://merchant.example:22/", rules=rules) == (
        "Port 22 can't be reached: use one of 443, 8443."
    )


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://a.example", UrlTarget("https", "a.example", 443, "/")),
        ("https://A.Example.:8443?x=1", UrlTarget("https", "a.example", 8443, "/?x=1")),
        ("https://a.example/b/../c?d=/e", UrlTarget("https", "a.example", 443, "/b/../c?d=/e")),
        ("https://a.example/%2F+ü", UrlTarget("https", "a.example", 443, "/%2F+%C3%BC")),
        ("http://bücher.example/", UrlTarget("http", "xn--bcher-kva.example", 80, "/")),
        ("https://a。example/", UrlTarget("https", "a.example", 443, "/")),
    ],
)
def test_a_url_leads_to_one_target(url: str, target: UrlTarget) -> None:
    assert parse_url(url) == target


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    ("url", "host", "authority"),
    [
        ("https://0x7f.1/", "127.0.0.1", "127.0.0.1"),
        ("https://[0:0:0::1]:444/", "::1", "[::1]:444"),
        ("https://[2606:4700::1111]/", "2606:4700::1111", "[2606:4700::1111]"),
        ("https://１２７。０.0.1:8443/", "127.0.0.1", "127.0.0.1:8443"),
        ("https://①⑥⑨.254.169.254/", "169.254.169.254", "169.254.169.254"),
    ],
)
def test_every_spelling_of_an_address_is_taken_for_that_address(
    url: str, host: str, authority: str
) -> None:
    target = parse_url(url)
    assert str(target.address) == target.host == host
    assert target.authority == authority


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    "url",
    [
        "https://straße.example/",
        "https://℀.example/",
        "https://a／b.example/",
        "https://ü%00.example/",
        "https://a.example\\@b.example/",
        "https://a.example%2f@b.example/",
        "https://%61.example/",
    ],
)
def test_hosts_that_two_parsers_could_read_differently_are_refused(url: str) -> None:
    with pytest.raises(UrlError):
        parse_url(url)


@given(st.text(max_size=60) | st.text("https:/.@[]#?%\\ \t\n0127axé", max_size=40))
def test_any_text_is_refused_or_leads_to_a_clean_target(text: str) -> None:
    for url in (text, "https://" + text):
        fault = delivery_url_error(url, rules=RULES)
        redirect_url_error(url, extra_schemes=())
        if fault is None:
            target = parse_url(url)
            assert target.host.isascii()
            assert target.path_and_query.startswith("/")
            assert all("!" <= character <= "~" for character in target.path_and_query)
            again = f"{target.scheme}://{target.authority}{target.path_and_query}"
            assert len(again) > 2048 or parse_url(again) == target


@pytest.mark.spec("C8")
@pytest.mark.parametrize("url", REFUSED[37])
def test_a_user_name_is_called_one(url: str) -> None:
    assert "user name" in (delivery_url_error(url, rules=RULES) or "")


@pytest.mark.spec("C8")
@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://pay.acme.example/", True),
        ("https://PAY.ACME.EXAMPLE.:8443/x?y", True),
        ("https://shop.example/", False),
        ("https://a.shop.example/", True),
        ("https://a.b.shop.example/", True),
        ("https://evilshop.example/", False),
        ("https://shop.example.thief.example/", False),
        ("https://pay.acme.example.thief.example/", False),
        ("https://x.pay.acme.example/", False),
        ("https://192.0.2.7/", True),
        ("https://192.0.2.8/", False),
        ("https://[2001:db8::7]/", True),
    ],
)
def test_only_result_hosts_of_the_brand_may_be_called(url: str, allowed: bool) -> None:
    hosts = [
        *map(
            parse_result_host,
            ("Pay.Acme.example", "*.shop.example", "192.0.2.7", "[2001:DB8:0::7]"),
        )
    ]
    assert hosts[:3] == ["pay.acme.example", "*.shop.example", "192.0.2.7"]
    error = result_host_error(url, hosts)
    assert (error is None) is allowed, error
    assert result_host_error(url, ()) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.",
        "*.com",
        "a b",
        "https://a.example",
        "a.example/x",
        "a.example:443",
        "a.example:8443",
        "a.example/",
        "*.192.0.2.7",
        "u@a.example",
        "a.*.example",
    ],
)
def test_what_is_no_result_host_is_refused(text: str) -> None:
    with pytest.raises(UrlError):
        parse_result_host(text)


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    "url",
    ["https://pay.acme.example/", "https://PAY.acme.example.:443/cb", "https://ｐay.acme.example/"],
)
def test_the_host_of_the_brand_itself_is_the_gateway_too(url: str) -> None:
    assert delivery_url_error(url, rules=RULES) is None
    error = delivery_url_error(url, rules=RULES, brand_host="pay.acme.example")
    assert error == "The URL leads to this gateway itself: give a URL of your own service."
