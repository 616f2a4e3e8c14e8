"""Models: which there are, what each is made of, and how to add more."""

from pathlib import Path

import pandas as pd
import streamlit as st

import viz_model as vm
from viz_model.checkpoints import Damaged, Entry, damaged, describe, short
from viz_model.checkpoints.compared import read_compared
from viz_model.memory_limits import RESERVE, available_bytes, needed_bytes
from viz_ui.components.model_table import Act, ModelRow, model_table
from viz_ui.frame.address import chosen_value
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.loaded_models import (
    begin_fetch,
    cancel_fetch,
    close_folder,
    fetcher,
    look_at,
    open_folder,
    opened_folders,
    remove_fetched,
    shelf,
)
from viz_ui.frame.place import draw_choice_of_place
from viz_ui.frame.visitors import may, told, why_not
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, size_words
from viz_ui.sharing import settings

COLUMNS = (
    ("L", "Layers. An encoder-decoder has two numbers: encoder + decoder"),
    ("H", "Heads in each layer"),
    ("G", "Key/value heads in each layer. Fewer than H means that heads share keys and values"),
    ("C", "Width of the residual stream"),
    ("D", "Width of a head"),
    ("F", "Width of the feed-forward network. 0 means that the model has only attention"),
    ("V", "Tokens in the vocabulary"),
    ("T", "Length of the longest prompt, in tokens"),
    ("Parameters", "How many numbers the model has learned"),
    ("On disk", "Size of the model's parameters on this machine, now or once the model is fetched"),
    ("In memory", "Size of the model's parameters when the model is loaded: four bytes for each parameter"),
)

LOOK, FETCH, CANCEL, REMOVE, CLOSE = "look", "fetch", "cancel", "remove", "close"


def draw() -> None:
    st.title("Models")
    st.markdown(
        "**Which model do you want to look at?** All pages show the model that you choose."
        + (
            " A model that you fetch is checked and kept on this machine, so you will not need the network for it "
            "again."
            if may(settings.FETCH)
            else ""
        ),
        help=explained(
            "parameter", "residual stream", "feed-forward", "grouped heads", "value", "attention weight", "bit"
        ),
    )
    with main_picture():
        draw_table()
    draw_choice_of_place()
    draw_forms()
    draw_compared()


def draw_table() -> None:
    """The models, and what was wrong with what was asked for."""
    of_chosen = st.session_state["problem"] if st.session_state["view"] is None else ""  # such as: it cannot be loaded
    for problem in filter(None, (st.session_state.get("models_problem"), of_chosen)):
        st.info(plain(problem), icon=":material/error:")
    model_table(COLUMNS, rows(), key="model_table", on_act=act)
    free = available_bytes()
    loaded = ", ".join(plain(name) for name in shelf().names) or "none"
    st.caption(
        f"At most two models stay loaded at a time, and all visitors share them. Loaded now: {loaded}. "
        + (f"{size_words(free)} of memory is free. " if free is not None else "")
        + f"To run, a model needs the memory in the column “In memory” and {size_words(RESERVE)} more. A model is "
        "computed in float32 unless you choose otherwise: half precision changes attention weights by more than 0.0001."
    )


def rows() -> list[ModelRow]:
    """The catalogue, opened folders, damaged ones, and fetches from the Hub that are not in the catalogue yet.

    Without what only somebody can use who may fetch models, or look at files.
    """
    coming = [job.of for job in fetcher().coming] if may(settings.FETCH) else []
    entries = [entry for entry in vm.catalogue() if entry.folder or may(settings.FETCH)]
    made = [to_fetch_row(entry, coming) if entry.folder is None else here_row(entry) for entry in entries]
    made += [opened_row(folder) for folder in opened_folders()]
    made += [damaged_row(folder) for folder in damaged() if may(settings.FOLDERS)]
    names = {entry.name for entry in entries}
    return made + [
        ModelRow(name, "Hugging Face Hub", coming_words(name, coming), ["…"] * len(COLUMNS), [Act(CANCEL, "Cancel")])
        for name in coming
        if name not in names
    ]


def coming_words(name: str, coming: list[str]) -> str:
    """The state of a model that is being fetched, or waits for its turn."""
    return "being fetched" if name == coming[0] else "waits for its turn"


def here_row(entry: Entry, name: str = "", extra: tuple[Act, ...] = ()) -> ModelRow:
    """A model that is on this machine. name: what it is chosen by, where that is not its own name."""
    name = name or entry.name
    chosen, acts = chosen_value("model") == name, list(extra)
    if entry.state == "fetched" and may(settings.REMOVE):
        acts.append(Act(REMOVE, "Remove", sure="Remove it?"))
    state = entry.state if entry.has_tokenizer else f"{entry.state}, reads only token ids"
    missing = missing_memory(entry)
    if chosen:
        acts.insert(0, Act(LOOK, "Chosen", done=True))
    elif missing and name not in shelf().names:
        state += f", needs {size_words(missing)} more memory"
    else:
        acts.insert(0, Act(LOOK, "Look at it", primary=True))
    return ModelRow(name, about(entry), state, cells(entry), acts, chosen=chosen)


def to_fetch_row(entry: Entry, coming: list[str]) -> ModelRow:
    """A model that is not here. coming: the names of those that are being fetched, see the sidebar."""
    state, act = entry.state, Act(FETCH, f"Fetch {size_words(entry.download)}", primary=True)
    if entry.name in coming:
        state, act = coming_words(entry.name, coming), Act(CANCEL, "Cancel")
    return ModelRow(entry.name, about(entry), state, cells(entry), [act])


def opened_row(folder: str) -> ModelRow:
    close = Act(CLOSE, "Close")
    try:
        return here_row(describe(Path(folder)), folder, (close,))
    except vm.VizError as error:
        return ModelRow(folder, str(error), "damaged", ["–"] * len(COLUMNS), [close])


def damaged_row(folder: Damaged) -> ModelRow:
    """A folder below checkpoints that holds no whole model."""
    return ModelRow(folder.folder.name, folder.problem, "damaged", ["–"] * len(COLUMNS), [])


def missing_memory(entry: Entry) -> int:
    """Bytes that are missing to load this model now; 0 where it fits, or where nobody knows."""
    free = available_bytes()
    return 0 if free is None else max(0, needed_bytes(entry.parameters) + RESERVE - free)


def about(entry: Entry) -> str:
    stored = "" if entry.folder is None else f" · stored as {entry.stored_as}"
    return f"{entry.family}, {entry.config.layout} · {entry.licence} · {short(entry.source)}{stored}"


def cells(entry: Entry) -> list[str]:
    config = entry.config
    layers = f"{config.n_encoder_layers} + {config.n_layers}" if config.n_encoder_layers else count(config.n_layers)
    heads = config.n_heads, config.n_kv_heads
    widths = config.d_model, config.d_head, config.d_ff
    return [
        layers,
        *(count(number) for number in (*heads, *widths, config.vocab_size, config.context_length)),
        count(entry.parameters or None),
        size_words(entry.size),
        size_words(needed_bytes(entry.parameters)) if entry.parameters else "–",
    ]


def count(value: int | None) -> str:
    """A number with commas; a dash where the library of the model does not tell."""
    return "–" if value is None else f"{value:,}"


def act(what: str, name: str) -> None:
    """A button of the table was pressed."""
    st.session_state.pop("models_problem", None)
    if what == LOOK:
        look_at(name)
    elif what == FETCH:
        begin_fetch(name)
    elif what == CANCEL:
        cancel_fetch(name)
    elif what == CLOSE:
        close_folder(name)
    elif what == REMOVE:
        try:
            remove_fetched(name)
        except vm.VizError as error:
            st.session_state.models_problem = told(str(error))


def draw_forms() -> None:
    """More models: from the Hub, and from a folder, for whoever may have them."""
    if not_here := why_not(settings.FOLDERS, settings.FETCH, settings.REMOVE):
        st.caption(not_here)
    draws = [draw for act, draw in ((settings.FETCH, draw_hub_form), (settings.FOLDERS, draw_folder_form)) if may(act)]
    if not draws:
        return
    for place, draw in zip(st.columns(2), draws, strict=False):
        with place:
            draw()
    st.caption(
        "Any text model that uses the attention interface of the transformers library works here, and so do GPT-Neo, "
        "Falcon, BLOOM, MPT and MPNet. Weights are read only from safetensors and GGUF files, which contain no program "
        "code. Code that comes with a model is never run."
    )


def draw_hub_form() -> None:
    with st.form("hub_form", border=False):
        st.text_input(
            "From the Hugging Face Hub",
            key="hub_id",
            placeholder="openai-community/gpt2",
            help="Type ORGANISATION/NAME of a text model. For a model in GGUF format, add /FILE.gguf. Other examples: "
            "google-bert/bert-base-uncased, google-t5/t5-small, Qwen/Qwen2.5-0.5B.",
        )
        st.form_submit_button("Fetch", on_click=fetch_typed, icon=":material/download:")


def draw_folder_form() -> None:
    with st.form("folder_form", border=False):
        st.text_input(
            "A folder of your own",
            key="folder_path",
            placeholder="/home/me/models/my-fine-tune",
            help="Type the whole path of a folder that holds config.json, the tokenizer, and weights as safetensors or "
            "GGUF. The folder is read where it is; nothing is copied.",
        )
        st.form_submit_button("Open", on_click=open_typed, icon=":material/folder_open:")


def fetch_typed() -> None:
    if name := st.session_state.hub_id.strip():
        begin_fetch(name)
        st.session_state["models_problem"] = st.session_state.get("fetch_problem", "")
    else:
        st.session_state.models_problem = "No model is named. Type ORGANISATION/NAME, then press Fetch."


def open_typed() -> None:
    st.session_state.pop("models_problem", None)
    if path := st.session_state.folder_path.strip():
        try:
            look_at(open_folder(path))
        except vm.VizError as error:
            st.session_state.models_problem = str(error)
    else:
        st.session_state.models_problem = "No folder is named. Type its whole path, then press Open."


def draw_compared() -> None:
    """How far each family is from the library's own results, as the tests measured it."""
    compared = read_compared()
    st.subheader("Compared with the transformers library")
    if not compared:
        st.caption("Nothing has been measured yet. Run: python -m tests.reference.families")
        return
    table = pd.DataFrame(
        {
            "family": [each.family for each in compared],
            "last compared": [each.date for each in compared],
            "with": [each.library for each in compared],
            "cases": [each.cases for each in compared],
            "largest difference": [each.largest_difference for each in compared],
        }
    )
    config = {"largest difference": st.column_config.NumberColumn(format="scientific")}
    st.dataframe(table, hide_index=True, key="compared_table", column_config=config, width="content")
    st.caption(
        "For each family of models, one small model with random parameters runs twice in float32: in this app, and in "
        "the transformers library with the library's own attention code. The last column is the largest difference of "
        "any logit or attention weight, over prompts of several lengths, with and without padding. The automatic tests "
        "make this table.",
        help=explained("logit"),
    )


draw()
