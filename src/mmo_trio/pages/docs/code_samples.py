"""Writes an example request as a program in each language of the API reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from attrs import frozen

# Characters up to which an object stays on one line.
LINE_LENGTH_MAX: Final = 72

# Seconds that the program in Python waits, which waits for ever by default.
TIMEOUT_S: Final = 30

KEY_HEADER: Final = "X-Api-Key"


@frozen
class ExampleRequest:
    """Holds a complete request of the reference."""

    method: str
    url: str
    """Without the query."""
    query: Mapping[str, str]
    api_key: str | None
    """None where no key is needed."""
    body: Mapping[str, Any] | None

    @property
    def url_with_query(self) -> str:
        if self.query:
            return f"{self.url}?{urlencode(self.query, safe=':')}"
        return self.url


@frozen
class _Notation:
    """Defines how a language writes an object."""

    opening: str
    closing: str
    colon: str
    constants: tuple[str, str, str] = ("null", "false", "true")
    has_quoted_names: bool = True
    has_trailing_comma: bool = True
    has_inner_spaces: bool = False
    step: int = 2
    """Columns that a member is indented by."""


_JSON: Final = _Notation("{", "}", ": ", has_trailing_comma=False)
_PYTHON: Final = _Notation("{", "}", ": ", constants=("None", "False", "True"), step=4)
_JAVASCRIPT: Final = _Notation("{", "}", ": ", has_quoted_names=False, has_inner_spaces=True)
_PHP: Final = _Notation("[", "]", " => ")


def json_text(value: object) -> str:
    """Return JSON for people: short objects on one line, Decimals with all their digits (G6)."""
    return _literal(value, _JSON, 0)


def _literal(value: object, notation: _Notation, indent: int) -> str:
    if isinstance(value, Mapping):
        # Short and flat: on one line, as a person would write it.
        line = _on_one_line(value, notation)
        is_nested = any(isinstance(member, Mapping | list) for member in value.values())
        if not is_nested and len(line) + indent <= LINE_LENGTH_MAX and len(value) < 4:
            return line

        within = indent + notation.step
        start = " " * within
        members = [
            f"{start}{_name(name, notation)}{notation.colon}{_literal(member, notation, within)}"
            for name, member in value.items()
        ]
        comma = "," * notation.has_trailing_comma
        return "\n".join(
            (notation.opening, ",\n".join(members) + comma, " " * indent + notation.closing)
        )

    if isinstance(value, list):
        within = indent + notation.step
        elements = [f"{' ' * within}{_literal(element, notation, within)}" for element in value]
        if elements:
            return "\n".join(("[", ",\n".join(elements), " " * indent + "]"))

        return "[]"

    return _scalar(value, notation)


def _on_one_line(value: Mapping[str, Any], notation: _Notation) -> str:
    space = " " * (notation.has_inner_spaces and bool(value))
    members = [
        f"{_name(name, notation)}{notation.colon}{_scalar(member, notation)}"
        for name, member in value.items()
    ]
    return f"{notation.opening}{space}{', '.join(members)}{space}{notation.closing}"


def _name(name: str, notation: _Notation) -> str:
    if notation.has_quoted_names or not name.isidentifier():
        return _quoted(name)
    return name


def _scalar(value: object, notation: _Notation) -> str:
    match value:
        case None:
            return notation.constants[0]
        # Before numbers: a bool is one of them in Python.
        case bool():
            return notation.constants[1 + value]
        case str():
            return _quoted(value)
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _indented(text: str, columns: int) -> str:
    return text.replace("\n", "\n" + " " * columns)


def curl_sample(request: ExampleRequest) -> str:
    """Return a command for a POSIX shell."""
    lines = [f'curl "{request.url_with_query}"']
    if request.api_key is not None:
        lines.append(f'-H "{KEY_HEADER}: {request.api_key}"')
    if request.body is not None:
        lines += ['-H "Content-Type: application/json"', f"-d '{json_text(request.body)}'"]
    return " \\\n  ".join([lines[0], *(_indented(line, 2) for line in lines[1:])])


def python_sample(request: ExampleRequest) -> str:
    """Return a program with the library requests."""
    arguments = [_quoted(request.url)]
    if request.query:
        arguments.append(f"params={_literal(request.query, _PYTHON, 4)}")

    if request.api_key is not None:
        arguments.append(f"headers={{{_quoted(KEY_HEADER)}: {_quoted(request.api_key)}}}")

    # The library writes JSON and its type by itself.
    if request.body is not None:
        arguments.append(f"json={_literal(request.body, _PYTHON, 4)}")

    # Without one the program would wait for ever.
    arguments.append(f"timeout={TIMEOUT_S}")
    lines = "".join(f"    {argument},\n" for argument in arguments)
    call = f"answer = requests.{request.method.lower()}(\n{lines})"
    return f"import requests\n\n{call}\nprint(answer.status_code, answer.text)"


def node_sample(request: ExampleRequest) -> str:
    """Return a module for Node 18 or later, which needs no library."""
    if request.api_key is None:
        headers = {}
    else:
        headers = {KEY_HEADER: request.api_key}

    options = []
    if request.body is not None:
        options.append('method: "POST"')
        headers["Content-Type"] = "application/json"

    if headers:
        options.append(f"headers: {_literal(headers, _JAVASCRIPT, 2)}")

    if request.body is not None:
        options.append(f"body: JSON.stringify({_literal(request.body, _JAVASCRIPT, 2)})")

    lines = "".join(f"  {option},\n" for option in options)
    if options:
        given = f", {{\n{lines}}}"
    else:
        given = ""

    return (
        f"const answer = await fetch({_quoted(request.url_with_query)}{given});\n"
        "console.log(answer.status, await answer.text());"
    )


def php_sample(request: ExampleRequest) -> str:
    """Return a program with the extension curl."""
    if request.api_key is None:
        headers = []
    else:
        headers = [_quoted(f"{KEY_HEADER}: {request.api_key}")]

    options = ["CURLOPT_RETURNTRANSFER => true"]
    if request.body is not None:
        headers.append(_quoted("Content-Type: application/json"))

    # The extension takes a list of lines, not names and values.
    if headers:
        options.append(
            "\n    ".join(("CURLOPT_HTTPHEADER => [", *(f"{header}," for header in headers)))
            + "\n  ]"
        )

    if request.body is not None:
        options.append(f"CURLOPT_POSTFIELDS => json_encode({_literal(request.body, _PHP, 2)})")

    lines = "".join(f"  {option},\n" for option in options)
    return (
        f"<?php\n$curl = curl_init({_quoted(request.url_with_query)});\ncurl_setopt_array($curl, "
        f"[\n{lines}]);\n"
        '$answer = curl_exec($curl);\necho curl_getinfo($curl, CURLINFO_RESPONSE_CODE), " ", '
        '$answer, "\\n";'
    )


def java_sample(request: ExampleRequest) -> str:
    """Return a program for Java 17 or later, in one file that `java` runs; it needs no library."""
    calls = []
    if request.api_key is not None:
        calls.append(f".header({_quoted(KEY_HEADER)}, {_quoted(request.api_key)})")

    if request.body is not None:
        # A text block, so that the JSON needs no backslashes.
        calls.append('.header("Content-Type", "application/json")')
        text = _indented(json_text(request.body), 2)
        calls.append(f'.POST(HttpRequest.BodyPublishers.ofString("""\n  {text}"""))')

    lines = "".join(f"\n  {call}" for call in (*calls, ".build()"))
    statements = (
        f"var request = "
        f"HttpRequest.newBuilder(URI.create({_quoted(request.url_with_query)})){lines};\n"
        "var answer = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());\n"
        'System.out.println(answer.statusCode() + " " + answer.body());'
    )
    return (
        "import java.net.URI;\nimport java.net.http.*;\nimport "
        "java.net.http.HttpResponse.BodyHandlers;\n\n"
        "class Example {\n  public static void main(String[] arguments) throws Exception {\n"
        f"    {_indented(statements, 4)}\n  }}\n}}"
    )


@frozen
class Language:
    title: str
    write: Callable[[ExampleRequest], str]


# The languages in the order of their tabs, by the name that Markdown's code blocks give them.
LANGUAGES: Final[Mapping[str, Language]] = MappingProxyType(
    {
        "bash": Language("curl", curl_sample),
        "python": Language("Python", python_sample),
        "javascript": Language("Node", node_sample),
        "php": Language("PHP", php_sample),
        "java": Language("Java", java_sample),
    }
)
