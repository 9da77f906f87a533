"""
A user at a page, with a mouse or without one.

A task is written once, as a function of `Hands`: `Mouse` counts its clicks, and `Keyboard` reaches
each control by Tab and arrows and checks that the focus can be seen.
"""

from abc import ABC, abstractmethod

from playwright.sync_api import FilePayload, Locator, Page, expect
from typing_extensions import override

LONGEST_WAY = 150
"""So many presses of Tab or of an arrow are made before a control counts as out of reach."""

# Where the focus is, seen from a control: on it, in the same row of a grid, in the same composite
# (whose arrows lead to it), or elsewhere.
FOCUS = """target => {
  const focused = document.activeElement;
  const active = focused?.getAttribute("aria-activedescendant");
  const owner = target.closest("label")?.control;
  if (focused === target || focused === owner || (active && target.id === active)) return "here";
  if (active && target.contains(document.getElementById(active))) return "here";
  const row = target.closest("[role=grid] [role=row][id]");
  if (row && row !== target) {
    if (row.id === active || row.contains(focused)) return "row";
    return row.closest("[role=grid]").contains(focused) ? "near" : "elsewhere";
  }
  const roles = ["listbox", "menu", "tablist", "tree", "grid", "radiogroup", "toolbar"];
  const composite = target.closest(roles.map(role => `[role=${role}]`).join());
  if (!composite || target.matches("[role=grid] :is(a, button, input)")) return "elsewhere";
  const controls = focused?.getAttribute("aria-controls")?.split(" ") ?? [];
  return composite.contains(focused) || controls.includes(composite.id) ? "near" : "elsewhere";
}"""

# True if the place of the focus is drawn: at the focused element, at the active element of its
# composite, or at a frame around a field.
SEEN = """() => {
  const focused = document.activeElement;
  const active = document.getElementById(focused.getAttribute("aria-activedescendant"));
  const places = [active ?? focused, focused, focused.parentElement, focused.nextElementSibling];
  const drawn = place => {
    const style = getComputedStyle(place);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return outlined || style.boxShadow !== "none";
  };
  const filled = place => getComputedStyle(place).backgroundColor !== "rgba(0, 0, 0, 0)";
  return places.filter(Boolean).some(drawn) || (active !== null && filled(active));
}"""


class Hands(ABC):
    """What a user does at a page; each method waits for its control as a user does."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @abstractmethod
    def click(self, target: Locator) -> None:
        """Press a button, link, tab, option, menu item or check box."""

    @abstractmethod
    def write(self, field: Locator, text: str) -> None:
        """Go to a field, and replace its text."""

    @abstractmethod
    def choose(self, field: Locator, option: str) -> None:
        """Choose one of the options of a `<select>`."""

    def write_here(self, field: Locator, text: str) -> None:
        """Replace the text of a field in which the page has put the cursor: no click is needed."""
        expect(field).to_be_focused()
        self._type(text)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def drop(self, field: Locator, name: str, content: bytes) -> None:
        """Drop a file on the page, or choose it in the dialog of the system."""
        file: FilePayload = {"name": name, "mimeType": "text/plain", "buffer": content}
        field.set_input_files(file)

    def _type(self, text: str) -> None:
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)


class Mouse(Hands):
    """A user with both hands; `clicks` counts the presses of the mouse, one for a dropped file."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.clicks = 0

    @override
    def click(self, target: Locator) -> None:
        self.clicks += 1
        target.click()

    @override
    def write(self, field: Locator, text: str) -> None:
        self.click(field)
        self._type(text)

    @override
    def choose(self, field: Locator, option: str) -> None:
        self.clicks += 2
        field.select_option(option)

    @override
    def drop(self, field: Locator, name: str, content: bytes) -> None:
        self.clicks += 1
        super().drop(field, name, content)


class Keyboard(Hands):
    """A user without a mouse."""

    @override
    def click(self, target: Locator) -> None:
        self.reach(target)
        toggled = target.evaluate("control => control.matches('[type=checkbox], [role=switch]')")
        self.page.keyboard.press("Space" if toggled else "Enter")

    @override
    def write(self, field: Locator, text: str) -> None:
        self.reach(field)
        self._type(text)

    @override
    def choose(self, field: Locator, option: str) -> None:
        self.reach(field)
        self.page.keyboard.type(option)
        expect(field.locator("option:checked")).to_have_text(option)

    def reach(self, target: Locator) -> None:
        """Press Tab and arrows until the focus is on a control, where it can be seen."""
        expect(target).to_be_visible()
        expect(target).to_be_enabled()
        arrow = "ArrowRight" if target.get_attribute("role") == "tab" else "ArrowDown"
        for _ in range(LONGEST_WAY):
            where = target.evaluate(FOCUS)
            if where == "here":
                break
            self.page.keyboard.press({"elsewhere": "Tab", "row": "ArrowRight"}.get(where, arrow))
        else:
            raise AssertionError(f"no key leads to {target}")
        assert self.page.evaluate(SEEN), f"the focus on {target} cannot be seen"
