"""Colours code by few kinds of tokens, so that its HTML stays short."""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final

from markupsafe import Markup
from pygments.lexer import Lexer
from pygments.lexers.data import JsonLexer
from pygments.lexers.javascript import JavascriptLexer
from pygments.lexers.jvm import JavaLexer
from pygments.lexers.php import PhpLexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.shell import BashLexer
from pygments.token import Comment, Keyword, Name, Number, String

LEXERS: Final[dict[str, type[Lexer]]] = {
    "bash": BashLexer,
    "java": JavaLexer,
    "javascript": JavascriptLexer,
    "json": JsonLexer,
    "php": PhpLexer,
    "python": PythonLexer,
}
CLASSES: Final = ((Comment, "c"), (String, "s"), (Number, "n"), (Keyword, "k"), (Name.Tag, "t"), (Name.Function, "f"))
"""The class in HTML of each coloured kind of token, with the kinds within it; other text has none."""


SHELL_BODY: Final = "-d '"
"""What stands before the JSON of a command of curl, which ends in a quotation mark."""


@lru_cache(maxsize=256)
def highlighted(code: str, language: str) -> Markup:
    """Return HTML of code in one of the languages of LEXERS, for a `pre`."""
    if language == "bash" and SHELL_BODY in code:
        command, _, body = code.partition(SHELL_BODY)
        tokens = [*_tokens(command + SHELL_BODY.removesuffix("'"), "bash"), ("s", "'")]
        tokens += [*_tokens(body.removesuffix("'"), "json"), ("s", "'")]
    else:
        tokens = list(_tokens(code, language))
    pieces = []
    for name, group in groupby(tokens, key=lambda each: each[0]):
        text = html.escape("".join([each[1] for each in group]), quote=False)
        pieces.append(f"<i class={name}>{text}</i>" if name else text)
    return Markup("".join(pieces))


def _tokens(code: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each token."""
    for kind, text in LEXERS[language](ensurenl=False, stripnl=False).get_tokens(code):
        yield next((name for root, name in CLASSES if kind[: len(root)] == root), ""), text
