"""The functions of a page without its run, and what they draw, noted: a whole page, let alone a browser, is dearer."""

import ast
from pathlib import Path
from types import ModuleType, SimpleNamespace

import viz_model as vm
from viz_ui.frame.view import View

PAGES = Path(__file__).resolve().parents[2] / "pages"


def page_module(name: str) -> ModuleType:
    """The module pages/`name`/page.py, whose last line, the call that draws the page, is not run."""
    path = PAGES / name / "page.py"
    tree = ast.parse(path.read_text(), path)
    drawing = tree.body.pop()
    assert ast.unparse(drawing) == "draw()", path
    module = ModuleType(f"page_of_{name}")
    exec(compile(tree, path, "exec"), vars(module))
    return module


class Session(dict):
    """A session state, whose names are attributes as well."""

    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _options(label=None, **options) -> dict:
    return {"label": label} | options


class Noted:
    """In place of Streamlit and of components: notes each call as (name, arguments, options).

    answers: what a call of this name gives back, where that is not the noting object itself.
    """

    def __init__(self, **answers):
        self.calls, self.answers, self.session_state = [], answers, Session()
        self.column_config = SimpleNamespace(NumberColumn=_options, ProgressColumn=_options, TextColumn=_options)
        self.context = SimpleNamespace(theme=SimpleNamespace(type="light"))

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, arguments, options))
            return self.answers.get(name, self)

        return call

    def __call__(self, *arguments, **options):
        self.calls.append(("", arguments, options))
        return self

    def columns(self, count, **_):
        return [self] * (count if isinstance(count, int) else len(count))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def of(self, name: str) -> list[tuple[tuple, dict]]:
        """The calls of this name."""
        return [(arguments, options) for called, arguments, options in self.calls if called == name]

    @property
    def words(self) -> str:
        """All that was said, without the signs of Markdown."""
        said = [str(text) for name in ("markdown", "caption", "info", "subheader") for (text, *_), _ in self.of(name)]
        return "\n".join(said).replace("**", "").replace("\\", "")


def view_of(
    model: vm.Model, prompt="5 9 11 9", *, name="", mask=None, part=None, target=None, edits=(), **places
) -> View:
    """A view of a pass, as `current_view` gives it; places: layer, head, query and key, 0 where none is given."""
    model, part = model.edited(edits), part or model.config.self_part
    trace = model.trace(prompt, None if mask is None else {part: mask}, target).of(part)
    chosen = {"layer": 0, "head": 0, "query": 0, "key": 0} | places
    return View(model, name or model.name, prompt, target, trace, **chosen)
