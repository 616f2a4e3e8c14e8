"""What a live training left so far: its curves, and the attention of its heads at the snapshot that is looked at."""

import math

import numpy as np
import streamlit as st

from pages.training.after import draw_before_and_after, draw_keep
from pages.training.live import bounds, is_running, own_training
from viz_model.model.tokenizer import Tokenizer
from viz_model.training.live import LiveTraining, Snapshot
from viz_ui.components.head_grid import head_grid
from viz_ui.components.panels import Matrix, panels
from viz_ui.components.training_curves import Line, Plot, training_curves
from viz_ui.frame.address import bring_sidebar_along, choose, chosen_value, held
from viz_ui.frame.forms import PairOfNumbers
from viz_ui.frame.jobs import draw_bar
from viz_ui.look.colours import sequential_lut
from viz_ui.look.text import labels, number, plain
from viz_ui.look.thumbnails import thumbnails

POLL_SECONDS = 0.8


def draw_training() -> None:
    """The visitor's training, drawn again and again while it runs."""
    st.fragment(_draw, run_every=POLL_SECONDS if is_running() else None)()


def _draw() -> None:
    training = own_training()
    held("live_head", PairOfNumbers(("live_layer", "live_head")))
    if training is None:
        _draw_nothing_yet()
        return
    if not training.is_under_way and st.session_state.get("live_watching"):
        st.session_state.live_watching = False
        st.rerun(scope="app")  # it has ended: the button says Train again, and nothing more is to be asked for
    st.session_state.live_watching = training.is_under_way
    shots = training.snapshots
    _draw_progress(training, shots[-1].step if shots else 0)
    if not shots:
        return
    number_of = st.session_state.get("live_snapshot", -1)
    shot = shots[number_of if number_of < len(shots) else -1]
    layers, heads = shot.weights.shape[:2]
    layer, head = chosen_head(layers, heads)
    with st.container(horizontal=True, gap="small"):
        with st.container(key="live_curves_side"):
            _draw_curves(training, shots, shots.index(shot))
        with st.container(width=grid_width(heads)):
            _draw_grid(shot, layer, head)
        with st.container(key="live_head_side"):
            _draw_head(training, shot, layer, head)
    if training.last is not None:
        draw_before_and_after(training, layer, head)
        draw_keep(training)
    bring_sidebar_along()


def _draw_nothing_yet() -> None:
    st.markdown(
        "Press **Train**. In the task “Random repeats”, the model first learns which characters occur at all. Its loss "
        "falls to the loss of a uniform guess among these characters. Then heads in layer 1 learn **induction**: they "
        "look for an earlier copy of the current token, and read the token after that copy. The loss falls again. "
        "Induction needs heads in layer 0 that read the **previous token**. At first a small weight on the previous "
        "token is enough; later this weight grows. Try one layer: how far does the loss fall?"
    )
    st.caption(bounds())


def _draw_progress(training: LiveTraining, step: int) -> None:
    steps, seconds = training.plan.recipe.steps, f"{training.seconds:.0f} s"
    if training.is_under_way and not step:
        draw_bar(training, f"Starting, {seconds}" if training.has_begun else "This training")
    elif training.is_under_way or step == steps:
        st.progress(step / steps, f"{step:,} of {steps:,} steps, {seconds}")
    else:
        st.progress(step / steps, f"Ended after step {step:,} of {steps:,}, {seconds}")
    if training.problem:
        st.info(plain(training.problem), icon=":material/edit:")


def _draw_curves(training: LiveTraining, shots: list[Snapshot], at: int) -> None:
    uniform = math.log(len(training.plan.characters))
    loss = Line("training loss", "stream", tuple(shot.loss for shot in shots))
    lines = (loss,)
    if training.plan.recipe.reads_text:
        lines = (loss, Line("random repeats", "scores", tuple(shot.again for shot in shots), dashed=True))
    previous, induction = (
        Line(name, role, tuple(float(getattr(shot, what).max()) for shot in shots), dashed)
        for name, role, what, dashed in (
            ("previous token", "key", "previous", False),
            ("induction", "weights", "induction", True),
        )
    )
    highest = 1.04 * max([uniform, *(value for line in lines for value in line.values if value is not None)])
    training_curves(
        [
            Plot("loss, nats", highest, lines, ("uniform guess", uniform)),
            Plot("weight, best head", 1.0, (previous, induction)),
        ],
        at=[shot.step for shot in shots],
        most=training.plan.recipe.steps,
        step=at,
        running=training.is_under_way,
        key="live_curves",
        on_step=_go_to,
    )


def grid_width(heads: int) -> int:
    """Pixels for the names of the layers and thumbnails of 24 to 72: curves and one head stand beside them."""
    return 84 + 6 * heads + min(72 * heads, 196)


def _go_to(step: int) -> None:
    st.session_state.live_snapshot = step


def _draw_grid(shot: Snapshot, layer: int, head: int) -> None:
    """All heads at this snapshot."""
    small, seen = thumbnails(shot.weights, 0, 1, _causal(shot))
    layers, heads = range(len(shot.weights)), range(shot.weights.shape[1])
    notes = [[_note(shot, layer, head) for head in heads] for layer in layers]
    head_grid(small, seen, sequential_lut(), layer=layer, head=head, labels=notes, key="live_grid", on_pick=_pick_head)


def _draw_head(training: LiveTraining, shot: Snapshot, layer: int, head: int) -> None:
    """The chosen head on the watched row."""
    names = labels(Tokenizer.of_bytes().token_bytes(token) for token in training.plan.watched)
    matrix = Matrix(
        "weights",
        f"Layer {layer}, head {head}, step {shot.step:,}",
        shot.weights[layer, head],
        names,
        names,
        caption=f"on random repeats: {_note(shot, layer, head)}",
        role="weights",
        allowed=_causal(shot),
        rows_are_queries=True,
        columns_are_keys=True,
    )
    panels([matrix], key="live_panels", matrix_width=300)


def _note(shot: Snapshot, layer: int, head: int) -> str:
    previous, induction = (number(of[layer, head], 2) for of in (shot.previous, shot.induction))
    return f"previous token {previous}, induction {induction}"


def _causal(shot: Snapshot) -> np.ndarray:
    return np.tri(shot.weights.shape[-1], dtype=bool)


def chosen_head(layers: int, heads: int) -> tuple[int, int]:
    """The head that is drawn large: as clicked, or the last one of the last layer."""
    layer, head = chosen_value("live_head") or (layers - 1, 0)
    return min(layer, layers - 1), min(head, heads - 1)


def _pick_head(layer: int, head: int) -> None:
    choose(live_head=(layer, head))
