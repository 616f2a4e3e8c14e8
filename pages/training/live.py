"""The reader's training: what they choose, starting, watching, stopping; it goes on while they look elsewhere."""

import streamlit as st

import viz_model as vm
from viz_model.errors import TrainingError
from viz_model.jobs import TRAINING
from viz_model.training.live import MOST_SECONDS, MOST_STEPS, LiveTraining, Plan
from viz_model.training.live_plans import LONGEST_TEXT, Size, repeats_plan, text_plan
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import Text
from viz_ui.frame.jobs import turns, visitor
from viz_ui.frame.text_in_address import LONGEST, LONGEST_CODE, from_address, to_address
from viz_ui.look.text import plain

REPEATS, TEXT = "Random repeats", "My own text"
WIDTHS = (16, 32, 64, 96, 128)
LARGEST_SEED = 9999
STEPS = 800  # what a first visitor trains
WATCHED = "kZ3qPm.B7xwLr9TekZ3qPm.B7xwLr9Te"  # sixteen characters, and the same again
WATCHED_IN_TEXT = "Once upon a time there was a king. Once upon a time there was a"


def own_training() -> LiveTraining | None:
    """What this visitor trains, or trained last."""
    return st.session_state.get("live_training")


def draw_choices() -> None:
    """What is trained: the task, the size of the model, how long; and the button that starts or stops it."""
    running = is_running()
    _take_text_of_link()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        task = linked(
            st.segmented_control,
            "Task",
            (REPEATS, TEXT),
            default=REPEATS,
            required=True,
            key="live_task",
            disabled=running,
        )
        size, numbers = Size(), {"disabled": running, "width": 90}
        linked(st.number_input, "Layers L", 1, 4, size.n_layers, key="live_layers", **numbers)
        linked(st.number_input, "Heads H", 1, 8, size.n_heads, key="live_heads", **numbers)
        linked(st.selectbox, "Width C", WIDTHS, WIDTHS.index(size.d_model), key="live_width", **numbers)
        linked(st.number_input, "Steps", 20, MOST_STEPS, STEPS, 100, key="live_steps", **numbers | {"width": 110})
        linked(st.number_input, "Seed", 0, LARGEST_SEED, 0, key="live_seed", **numbers)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        if task == TEXT:
            _choose_text(running)
        linked(
            st.text_input,
            "Text to watch",
            WATCHED if task == REPEATS else WATCHED_IN_TEXT,
            key="live_watched" if task == REPEATS else "live_watched_text",
            max_chars=64,
            disabled=running,
            help="Every few steps the model reads this text, and the attention of its heads is drawn below.",
        )
        linked(st.toggle, "Feed-forward", key="live_ffn", disabled=running)
        if running:
            st.button("Stop", key="live_stop", icon=":material/stop:", on_click=own_training().stop, width=110)
        else:
            st.button(
                "Train", key="live_start", icon=":material/play_arrow:", on_click=start, type="primary", width=110
            )
    problem = st.session_state.get("live_problem")
    if problem:
        st.info(plain(problem), icon=":material/edit:")


def _take_text_of_link() -> None:
    """The text that came with the address, or that the browser's Back brought again."""
    code = held("live_pasted", Text(LONGEST_CODE), "")
    if code and code != st.session_state.get("live_taken"):
        st.session_state.live_text = from_address(code)
    st.session_state.live_taken = code


def _put_text_into_link() -> None:
    code = st.session_state.live_taken = to_address(st.session_state.live_text or "")
    choose(live_pasted=code)


def _choose_text(running: bool) -> None:
    """The text to learn from, behind a button: the room below belongs to the pictures."""
    count = len(st.session_state.get("live_text") or "")
    is_long = count > LONGEST
    with st.popover(f"Text ({count:,})", icon=":material/edit_note:", width=150):
        st.text_area(
            "Text to learn from",
            key="live_text",
            persist_state="session",
            height=300,
            width=520,
            max_chars=LONGEST_TEXT,
            disabled=running,
            placeholder="Paste a page or more, then press Ctrl+Enter.",
            on_change=_put_text_into_link,
            help=f"The model reads the text byte by byte. A link holds texts of up to {LONGEST:,} characters.",
        )
        if is_long:
            st.caption(f"The link does not hold this text: it has {count:,} characters, more than {LONGEST:,}.")
        elif count:
            st.caption("The link holds this text.")


def is_running() -> bool:
    return own_training() is not None and own_training().is_under_way


def start() -> None:
    """Callback of the button: begin a training as chosen, or say why not."""
    st.session_state.live_problem = ""
    try:
        plan = _plan()
    except vm.VizError as error:
        st.session_state.live_problem = str(error)
        return
    st.session_state.live_training = visitor().start(LiveTraining(plan), turns(TRAINING))
    st.session_state.live_snapshot = -1
    st.session_state.live_kept = st.session_state.live_keep_problem = ""


def _plan() -> Plan:
    state = st.session_state
    size = Size(state.live_layers, state.live_heads, state.live_width, state.live_ffn)
    if state.live_task == REPEATS:
        return repeats_plan(size, state.live_steps, state.live_seed, state.live_watched)
    text = state.get("live_text") or ""
    if not text.strip():
        raise TrainingError("There is no text to learn from yet. Press “Text” and paste a page or more.")
    return text_plan(size, state.live_steps, state.live_seed, state.live_watched_text, text)


def bounds() -> str:
    """The limits of a live training, in words."""
    return (
        f"A training run has at most {MOST_STEPS:,} steps and ends after {MOST_SECONDS // 60} minutes at the latest. "
        "It uses one core. It goes on while you look at other pages of this app, and stops when you close the app. "
        "Only one training run can be under way on this computer at a time; if someone else is training, yours waits "
        "for its turn."
    )
