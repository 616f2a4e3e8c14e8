"""Beyond the trained length: the loss of a rotary model by position, its weights there, and stretched angles."""

from dataclasses import dataclass

import streamlit as st
from torch import Tensor

import viz_model as vm
from pages.positions.figures import Curve, loss_figure, read_weights_figure
from viz_model.jobs import Job
from viz_model.latest import Latest
from viz_model.positions.beyond_trained_length import (
    DIVIDED,
    LARGER_BASE,
    Reading,
    Stretch,
    binned,
    longer,
    previous_token_head,
    read,
    read_restarting,
)
from viz_model.training.held_out import long_rows
from viz_model.transformer.facts import ModelFacts
from viz_ui.frame.address import linked
from viz_ui.frame.jobs import finished
from viz_ui.frame.view import View, current_view
from viz_ui.look.text import number, plain
from viz_ui.parts.fitting_model import fitting

LONGEST = 1024  # the longest trained length: a text several times as long is still read within seconds
TIMES, WINDOWS, FACTORS = (2, 4, 8), (4, 16), (2, 4, 8, 16)
AS_TRAINED = "as trained"
WAYS = (AS_TRAINED, DIVIDED, LARGER_BASE)
BINS = 4  # of a trained length
TEXTS = Latest(2)  # what was read last, for all visitors


@dataclass(frozen=True)
class Asked:
    """The model, the texts that it reads, and its angles."""

    name: str
    times: int
    windows: int
    way: str
    factor: int

    @property
    def words(self) -> str:
        """The way in a legend."""
        return AS_TRAINED if self.way == AS_TRAINED else f"{self.way}, s = {self.factor}"


@dataclass(frozen=True, eq=False)
class LongTextLosses:
    """Losses (n,T) in pieces that restart, and the readings as one text: as trained, and as asked for."""

    restarting: Tensor
    readings: dict[str, Reading]
    head: tuple[int, int]
    is_held_out: bool


def draw_past_trained_length() -> None:
    """The whole section; not within a fragment, because its work can be stopped."""
    view = current_view()
    name, model, instead = fitting(
        view,
        _can_be_read,
        f"a decoder with a tokenizer, rotary positions and a trained length of at most {LONGEST:,} tokens, so that it "
        "reads longer texts within seconds",
        reads_text=True,
    )
    asked = _choose(name, model)
    if instead:
        no_row = _no_row(view)
        st.caption(f"This section shows {plain(model.name)}. {no_row}" if no_row else instead)
    found = _found(model, asked)
    trained = model.config.context_length
    st.markdown(_finding(found, trained))
    _draw_curves(found, model, trained)
    st.caption(_what_was_read(found, model, asked))


def _can_be_read(config: ModelFacts) -> bool:
    return config.layout == "decoder-only" and config.position == "rotary" and config.context_length <= LONGEST


def _no_row(view: View) -> str:
    """Why a learned table cannot be read past its end, in the model's own words."""
    config = view.model.config
    if config.position != "learned" or config.layout == "encoder-decoder":
        return ""
    try:
        longer(view.model, config.context_length + 1)
    except vm.VizError as error:
        return plain(str(error))
    return ""


def _choose(name: str, model: vm.Model) -> Asked:
    trained, bound = model.config.context_length, {"required": True}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        times = linked(
            st.segmented_control,
            "Tokens in one text",
            TIMES,
            default=TIMES[1],
            format_func=lambda times: f"{times * trained:,}",
            key="past_times",
            **bound,
        )
        windows = linked(st.segmented_control, "Texts", WINDOWS, default=WINDOWS[0], key="past_texts", **bound)
        way, factor = AS_TRAINED, 1
        if model.config.rotary_pairs is not None:
            way = linked(st.segmented_control, "Angles", WAYS, default=AS_TRAINED, key="angles", **bound)
            if way != AS_TRAINED:
                factor = linked(
                    st.segmented_control, "Factor s", FACTORS, default=FACTORS[1], key="past_factor", **bound
                )
    return Asked(name, times, windows, way, factor)


def _found(model: vm.Model, asked: Asked) -> LongTextLosses:
    """All that is drawn, kept for this visitor; what is done stays where the reader stops the rest."""
    of = (asked.name, asked.times, asked.windows)
    if st.session_state.get("past_trained", (None,))[0] != of:
        st.session_state.past_trained = (of, {})
    parts = st.session_state.past_trained[1]
    wanted = dict.fromkeys(("restarting", AS_TRAINED, asked.words))  # each once

    def work(job: Job) -> None:
        rows, parts["held out"] = _rows(model, *of)
        steps = [step for step in wanted if step not in parts]
        for n, step in enumerate(steps):

            def tell(done: float, total: float, n: int = n) -> None:
                job.tell(n + done / total, len(steps))

            if step == "restarting":
                parts["head"] = previous_token_head(model, rows[0])
                parts[step] = read_restarting(model, rows, tell)
            else:
                stretch = None if step == AS_TRAINED else Stretch(asked.way, asked.factor)
                parts[step] = read(model, rows, parts["head"], stretch, tell)

    if not wanted.keys() <= parts.keys():
        length = asked.times * model.config.context_length
        words = f"{plain(model.name)} reads {asked.windows} texts of {length:,} tokens"
        finished(work, words=words, name="past", of=asked)
    readings = {words: parts[words] for words in (AS_TRAINED, asked.words)}
    return LongTextLosses(parts["restarting"], readings, parts["head"], parts["held out"])


def _rows(model: vm.Model, name: str, times: int, windows: int) -> tuple[Tensor, bool]:
    length = times * model.config.context_length + 1
    return TEXTS.get((name, times, windows), lambda: long_rows(model, name, length, windows))


def _finding(found: LongTextLosses, trained: int) -> str:
    """The mean losses up to the trained length and beyond it, in nats per token."""
    words = []
    for name, losses in _losses(found).items():
        before, past = (losses[:, part].mean().item() for part in (slice(trained), slice(trained, None)))
        words.append(f"{name}: {number(before, 3)} → **{number(past, 3)}**")
    return (
        f"These are mean losses in nats per token. The number before the arrow is for the first {trained:,} positions "
        "of a text. The number after it is for all later positions. "
        f"{' · '.join(words).capitalize()}."
    )


def _losses(found: LongTextLosses) -> dict[str, Tensor]:
    return {"restarting": found.restarting} | {name: reading.losses for name, reading in found.readings.items()}


def _draw_curves(found: LongTextLosses, model: vm.Model, trained: int) -> None:
    size, theme = max(1, trained // BINS), st.context.theme.type or "light"

    def curve(values: Tensor) -> Curve:
        means, middles = binned(values, size)
        return Curve(middles.numpy(), means.numpy())

    layer, head = found.head
    figures = {
        "loss": loss_figure(
            {name: curve(losses) for name, losses in _losses(found).items()}, trained=trained, theme=theme
        ),
        "weights": read_weights_figure(
            {
                f"Weight on the previous token, layer {layer}, head {head}": {
                    name: curve(reading.previous) for name, reading in found.readings.items()
                },
                f"Weight on keys at least {trained:,} tokens away, mean of all heads": {
                    name: curve(reading.far) for name, reading in found.readings.items()
                },
            },
            trained=trained,
            theme=theme,
        ),
    }
    with st.container(horizontal=True):
        for name, figure in figures.items():
            with st.container(key=f"third_of_row_{name}"):
                st.plotly_chart(figure, key=f"past_{name}", theme=None, config={"displayModeBar": False})


def _what_was_read(found: LongTextLosses, model: vm.Model, asked: Asked) -> str:
    trained = model.config.context_length
    size, half = max(1, trained // BINS), (trained + 1) // 2
    whose = "its" if found.is_held_out else "tiny-gpt’s"
    return (
        f"The model reads {asked.windows} texts of {asked.times * trained:,} tokens, from tales that were held out "
        f"from {whose} training. Each point is the mean of {size} positions. The losses are means over all texts; "
        "the attention weights are those of the first text. **Restarting** cuts the same tokens into overlapping "
        f"pieces: each piece has {trained:,} tokens, and a new piece starts every {half:,} tokens. Positions count "
        "from 0 in each piece, so no position is beyond the trained length. The curve of “restarting” goes up and down "
        "only because some parts of the texts are harder to predict. For the weight on the previous token, one head is "
        "shown: the head in which this weight is largest."
    )
