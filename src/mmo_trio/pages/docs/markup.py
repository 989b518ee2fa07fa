"""Makes HTML of the documentation's texts, names and pieces of code."""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Final

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers.data import JsonLexer
from pygments.lexers.javascript import JavascriptLexer
from pygments.lexers.jvm import JavaLexer
from pygments.lexers.php import PhpLexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.shell import BashLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, String

LEXERS: Final[dict[str, type[Lexer]]] = {
    "bash": BashLexer,
    "java": JavaLexer,
    "javascript": JavascriptLexer,
    "json": JsonLexer,
    "php": PhpLexer,
    "python": PythonLexer,
    "text": TextLexer,
}

# The class in HTML of each coloured kind of token, with the kinds within it; other text has none.
CLASSES: Final = (
    (Comment, "c"),
    (String, "s"),
    (Number, "n"),
    (Keyword, "k"),
    (Name.Tag, "t"),
    (Name.Function, "f"),
)

# What stands before the JSON of a command of curl, which ends in a quotation mark.
SHELL_BODY: Final = "-d '"


def with_code(text: str) -> Markup:
    """Return HTML of a text with `code` and line breaks."""
    # Every second part stood between two grave accents.
    pieces = str(escape(text)).split("`")
    pieces[1::2] = [f"<code>{piece}</code>" for piece in pieces[1::2]]
    return Markup("".join(pieces).replace("\n", "<br>"))


def breakable(name: str) -> Markup:
    """Return HTML of a name such as `user_busy`, which may break after an underscore, and so not
    within a word."""
    return Markup("_<wbr>").join(str(name).split("_"))


@lru_cache(maxsize=256)
def highlighted(code: str, language: str) -> Markup:
    """Return HTML of code in one of the languages of LEXERS, for a `pre`."""
    # The body of a command is JSON, and is coloured as such.
    if language == "bash" and SHELL_BODY in code:
        command, _, body = code.partition(SHELL_BODY)
        tokens = [*_tokens(command + SHELL_BODY.removesuffix("'"), "bash"), ("s", "'")]
        tokens += [*_tokens(body.removesuffix("'"), "json"), ("s", "'")]
    else:
        tokens = list(_tokens(code, language))

    pieces = []
    for class_name, group in groupby(tokens, key=itemgetter(0)):
        # A letter for each class and no quotation marks: the page has thousands of tokens.
        text = html.escape("".join([token_text for _, token_text in group]), quote=False)
        if class_name:
            text = f"<i class={class_name}>{text}</i>"

        pieces.append(text)

    return Markup("".join(pieces))


def _tokens(code: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each token."""
    for kind, text in LEXERS[language](ensurenl=False, stripnl=False).get_tokens(code):
        yield next((name for root, name in CLASSES if kind[: len(root)] == root), ""), text
