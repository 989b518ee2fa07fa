"""Reads and uses a page as a screen reader does: through Chromium's accessibility tree and the
keyboard, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen
from playwright.sync_api import Page

from tests.support.browser import POLL_MS
from tests.support.browser_gateway import PATIENCE_S

CONTROLS = {
    "button",
    "checkbox",
    "combobox",
    "link",
    "radio",
    "searchbox",
    "textbox",
    "DisclosureTriangle",
}
LANDMARKS = {
    "banner",
    "complementary",
    "contentinfo",
    "form",
    "main",
    "navigation",
    "region",
    "search",
}


@frozen
class Spoken:
    """What a screen reader says of one node: its role and name, and what else is known of it."""

    role: str
    name: str
    description: str
    within: tuple[str, ...]
    """Role and name of each landmark, group, live region and cell around it, outermost first."""
    properties: dict[str, Any]
    """Such as `focused`, `level`, `invalid` and `live`."""
    node: int
    """Chromium's number of the element."""


class ScreenReader:
    """Uses one page. Controls are found by role and name; where several have the same, by the group
    they are in."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._chromium = page.context.new_cdp_session(page)
        self._chromium.send("Accessibility.enable")
        self._chromium.send("DOM.enable")

    def read(self) -> list[Spoken]:
        """Return all that is read of the page, in reading order."""
        nodes = self._chromium.send("Accessibility.getFullAXTree")["nodes"]
        by_id = {each["nodeId"]: each for each in nodes}
        return list(_walk(nodes[0], by_id, ()))

    def names(self) -> list[str]:
        """Return the names in reading order, without those that repeat the one before."""
        found: list[str] = []
        for each in self.read():
            if each.name and each.role != "InlineTextBox" and (not found or found[-1] != each.name):
                found.append(each.name)
        return found

    def expect(self, *wanted: str) -> None:
        """Wait until all of these are read, in this order; each is the beginning of a name."""

        def is_read() -> bool:
            names = iter(self.names())
            return all(any(name.startswith(each) for name in names) for each in wanted)

        self._wait_for(is_read, lambda: f"{wanted} not in this order in {self.names()}")

    def expect_announced(self, text: str) -> None:
        """Wait until a live region says this, so that it is read without being looked for."""

        def is_announced() -> bool:
            live = [
                each
                for each in self.read()
                if {"status", "alert"} & {role.split(":")[0] for role in each.within}
            ]
            return any(text in each.name for each in live)

        self._wait_for(is_announced, lambda: f"{text!r} is in no live region of {self.names()}")

    def press(self, role: str, name: str, *, within: str = "", key: str = "Enter") -> None:
        """Go to a control and press a key on it."""
        self._go_to(role, name, within)
        self.page.keyboard.press(key)

    def write(self, name: str, text: str, *, within: str = "") -> None:
        """Go to a field and replace what is in it."""
        self._go_to("textbox", name, within)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def focused(self) -> Spoken:
        """Return the control that has the focus, once a control has it."""
        focused: list[Spoken] = []

        def has_focus() -> bool:
            controls = (spoken for spoken in self.read() if spoken.role in CONTROLS)
            focused[:] = [control for control in controls if control.properties.get("focused")]
            return bool(focused)

        self._wait_for(has_focus, lambda: f"no control has the focus of {self.names()}")
        return focused[0]

    def check(self) -> None:
        """Fail where a listener would be lost: no title or main part, headings that skip a level,
        controls without a name, and controls that nothing tells apart."""
        spoken = self.read()
        assert spoken[0].role == "RootWebArea"
        assert spoken[0].name, "the page has no title"
        assert sum(each.role == "main" for each in spoken) == 1, (
            "one part of the page is its main part"
        )
        levels = [each.properties["level"] for each in spoken if each.role == "heading"]
        assert levels.count(1) == 1, levels
        assert all(
            after <= before + 1 for before, after in zip([0, *levels], levels, strict=False)
        ), levels
        controls = [each for each in spoken if each.role in CONTROLS]
        assert all(each.name for each in controls), [each for each in controls if not each.name]
        fields = [
            (each.role, each.name, each.within)
            for each in controls
            if each.role not in ("link", "button")
        ]
        assert len(set(fields)) == len(fields), (
            f"fields that sound the same: {sorted(map(str, fields))}"
        )

    def _go_to(self, role: str, name: str, within: str) -> None:
        found: list[Spoken] = []

        def is_there() -> bool:
            found[:] = [
                each
                for each in self.read()
                if each.role == role
                and each.name.startswith(name)
                and within in " ".join(each.within)
            ]
            return bool(found)

        self._wait_for(is_there, lambda: f"no {role} {name!r} in {self.names()}")
        assert len(found) == 1, f"{len(found)} times {role} {name!r}: {found}"
        self._chromium.send("DOM.focus", {"backendNodeId": found[0].node})

    def _wait_for(self, is_so: Callable[[], bool], describe: Callable[[], str]) -> None:
        for _ in range(int(PATIENCE_S * 1000 / POLL_MS)):
            if is_so():
                return
            self.page.wait_for_timeout(POLL_MS)
        raise AssertionError(describe())


AROUND = LANDMARKS | {"alert", "cell", "group", "radiogroup", "row", "status"}


def _walk(
    node: dict[str, Any], by_id: dict[str, dict[str, Any]], within: tuple[str, ...]
) -> Iterator[Spoken]:
    role, name = _value(node, "role"), _value(node, "name")
    if not node["ignored"] and role not in ("none", "generic"):
        properties = {
            each["name"]: each["value"].get("value") for each in node.get("properties", ())
        }
        number = node.get("backendDOMNodeId", 0)
        yield Spoken(role, name.strip(), _value(node, "description"), within, properties, number)
        if role in AROUND:
            within = (*within, f"{role}:{name}")
    for child in node.get("childIds", ()):
        if child in by_id:
            yield from _walk(by_id[child], by_id, within)


def _value(node: dict[str, Any], member: str) -> str:
    return str(node.get(member, {}).get("value", ""))
