"""A button that opens a text file of the reader's: the browser reads it, and sends its text as it sends a text that is
typed. No file is uploaded, so the server keeps none (`viz_ui/sharing/door.py` refuses all that are).

text_file("Open a text file", key="own_file", on_file=lambda file: ...)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.serving import component
from viz_ui.look.text import size_words

LARGEST = 2_000_000  # bytes: a long novel has about one million
LONGEST_NAME = 80
PROBLEMS = {
    "large": f"has more than {size_words(LARGEST)}. Choose a smaller file, or cut out a part of it.",
    "encoding": "is not text in UTF-8: it may be a picture or a document, or have another encoding. Save it as plain "
    "text in UTF-8.",
    "unreadable": "could not be read by your browser. Choose it again.",
}

_component = component(
    "viz.text_file",
    html='<div class="text-file"></div>',
    script="text_file/text_file.js",
    styles=("text_file/text_file.css",),
)


@dataclass(frozen=True)
class FileText:
    """What was opened: the file's name and its text; or, where there is none, what is wrong with it, as a sentence."""

    name: str
    text: str = ""
    problem: str = ""


def text_file(label: str, *, key: str, on_file: Callable[[FileText], None]) -> None:
    """Draw the button. on_file: called once with each file that was opened."""

    def opened() -> None:
        file = checked_file(event_value(key, "file"))
        if file is not None:
            on_file(file)

    _component(data={"label": label, "largest": LARGEST}, key=key, on_file_change=opened)


def checked_file(value) -> FileText | None:
    """The event {name, text or problem}, or None for nonsense: a visitor can forge it."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    name, text, problem = value["name"][:LONGEST_NAME], value.get("text"), value.get("problem")
    if isinstance(problem, str) and problem in PROBLEMS:
        return FileText(name, problem=f"“{name}” {PROBLEMS[problem]}")
    if not isinstance(text, str):
        return None
    if len(text) > LARGEST:
        return FileText(name, problem=f"“{name}” {PROBLEMS['large']}")
    if "\0" in text:
        return FileText(name, problem=f"“{name}” {PROBLEMS['encoding']}")
    return FileText(name, text.replace("\r\n", "\n"))
