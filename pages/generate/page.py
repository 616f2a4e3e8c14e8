"""Generate: the prompt in one pass, then a token a step, with the cache and the drawing of each step."""

from dataclasses import dataclass

import streamlit as st

from pages.generate.costs_figure import cost_figure
from pages.generate.run import Branches, Run, read_branches, write_branches
from viz_model.model.sampling import Sampling
from viz_ui.components.generation import generation
from viz_ui.frame.address import choose, end_run, held, hold, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.forms import Text, Whole
from viz_ui.frame.not_followed import not_followed
from viz_ui.frame.passes import shown_pass
from viz_ui.frame.view import View, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import labels, number

NEW_TOKENS, TEMPERATURE, TOP_K, TOP_P = 12, 0.8, 40, 0.95  # what a first visitor sees
MORE = 10
LARGEST_SEED = 999_999
LONGEST_BRANCHES = 5000  # letters
SECONDS_A_RUN = 0.3  # of making steps before they are shown


@dataclass(frozen=True)
class Choices:
    """What the reader chose: how many tokens, how they are drawn, which ones the reader took, and the step in view."""

    new_tokens: int
    sampling: Sampling
    branches: Branches
    step: int | None


def draw() -> None:
    view = current_view()
    st.title("Generate")
    if view.model.config.layout == "encoder-only":
        main_picture().info(
            f"{view.model.name} reads a text in both directions, so it predicts no next token. In the sidebar, choose "
            "a model with a decoder."
        )
        return
    warning = st.empty()  # filled when the steps are there
    read = "source" if view.model.has_source else "prompt"
    rests = view.part == "encoder"
    instead = " The encoder runs only in the first step, so you see cross-attention in its place." if rests else ""
    st.markdown(
        f"**How does a model write?** It reads the {read} once, keeps the keys and values, and adds one token in each "
        f"step.{instead}",
        help="Press play, or click a candidate to go on with that token.\n\n"
        + explained("KV cache", "prefill", "logit", "softmax"),
    )
    row, choices = draw_choices(view)
    end_run()  # all widgets have been drawn; what follows may be cut off by the next click
    run, wanted = current_run(view, choices), choices.new_tokens
    if run is None:
        st.rerun()
    if not run.is_done(wanted) and len(run.steps) <= (choices.step or 0):
        # One step, so that there is something to see, or the branch just taken.
        of = id(run), len(run.steps)
        shown_pass("step", of, view.model, view.prompt, lambda: run.advance(wanted, 0), can_stop=True)
    draw_button(row, view, run, wanted)
    if run.problem:
        st.info(run.problem, icon=":material/edit:")
    if differing := [step for step in run.steps if step.differs]:
        warning.warning(
            f"**The cache changes what this model writes.** At step {differing[0].number} the "
            f"logits differ by {number(differing[0].largest_difference, 2)}, and rounding cannot explain that. Trust "
            "the logits without the cache: in this model, the numbers of a token depend on the tokens after it, so "
            "they cannot be kept.",
            icon=":material/warning:",
        )
    if run.steps:
        with main_picture():
            draw_steps(view, run, choices)
    if not run.is_done(wanted):  # the steps so far are drawn before more are made: a picture that waits turns pale
        run.advance(wanted, SECONDS_A_RUN)
        st.rerun()
    if run.steps:
        draw_costs(run, choices)


def draw_choices(view: View) -> tuple:
    """The widgets of the page: the row that its button will end, and what is chosen."""
    config = view.model.config
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small")
    with row:
        new_tokens = linked(
            st.number_input,
            "New tokens",
            1,
            config.context_length,
            min(NEW_TOKENS, config.context_length),
            key="new",
            width=100,
        )
        greedy = linked(st.toggle, "Greedy", key="greedy", help=explained("greedy"))
        drawn = {"disabled": greedy}
        temperature = linked(
            st.number_input,
            "Temperature",
            0.05,
            10.0,
            TEMPERATURE,
            0.1,
            key="temperature",
            width=125,
            help=explained("temperature"),
            **drawn,
        )
        top_k = linked(
            st.number_input,
            f"Top-k of {config.vocab_size:,}",
            1,
            config.vocab_size,
            min(TOP_K, config.vocab_size),
            key="top_k",
            width=145,
            help=explained("top-k"),
            **drawn,
        )
        top_p = linked(
            st.number_input, "Top-p", 0.01, 1.0, TOP_P, 0.05, key="top_p", width=100, help=explained("top-p"), **drawn
        )
        same = "With the same seed and the same choices, the same tokens are drawn again."
        seed = linked(st.number_input, "Seed", 0, LARGEST_SEED, 0, key="seed", width=100, help=same, **drawn)
    if st.session_state.pop("drop_branches", False):
        hold(branches="")
    branches = held("branches", Text(LONGEST_BRANCHES), "")
    step = held("step", Whole(0, config.context_length))
    if not view.trace.own_mask:
        st.caption("The model writes under its own causal mask. The mask in the sidebar does not apply here.")
    if words := not_followed(view.model):
        st.caption(words)
    sampling = Sampling(0.0) if greedy else Sampling(temperature, top_k, top_p, seed)
    return row, Choices(new_tokens, sampling, read_branches(branches, config.vocab_size), step)


def current_run(view: View, choices: Choices) -> Run | None:
    """The visitor's run. It goes on while the choices stay the same; where one changes, the steps before it are kept.

    None where branches must be dropped first: those of one text are not taken along into another.
    """
    run = st.session_state.get("generation_run")
    if run is None or not run.is_of(view.model, view.prompt, view.target, choices.sampling):
        st.session_state.pop("generation_stopped", None)
        if run is not None and run.branches and run.branches == choices.branches:
            st.session_state.drop_branches = True
            st.session_state.generation_run = None
            return None
        run = Run(view.model, view.prompt, view.target, choices.sampling, choices.branches)
    elif run.branches != choices.branches:
        run = run.with_branches(choices.branches)
    st.session_state.generation_run = run
    return run


def draw_button(row, view: View, run: Run, wanted: int) -> None:
    """A button: Stop while steps are made; then one that makes the rest, or a few more."""
    if not run.is_done(wanted):
        row.button("Stop", key="stop", icon=":material/stop:", on_click=stop, args=(wanted,), width=150)
        return
    stopped_at, asked = st.session_state.get("generation_stopped", (0, 0))
    more = asked if stopped_at == wanted else min(wanted + MORE, view.model.config.context_length)
    word = f"Continue to {more}" if stopped_at == wanted else f"{more - wanted} more"
    ended = len(run.steps) < wanted or run.steps[-1].is_end
    row.button(
        word,
        key="more",
        icon=":material/add:",
        on_click=ask_for,
        args=(more,),
        disabled=ended or more <= wanted,
        help="The model has ended the text." if ended and not run.problem else None,
        width=150,
    )


def stop(wanted: int) -> None:
    """Stop. The address then holds the number of steps that were made, so that a link shows the same."""
    made = max(1, len(st.session_state.generation_run.steps))
    st.session_state.generation_stopped = (made, wanted)
    st.session_state.new = made


def ask_for(new_tokens: int) -> None:
    st.session_state.new = new_tokens


def draw_steps(view: View, run: Run, choices: Choices) -> None:
    """Player, tokens, cache and candidates of the steps that there are."""
    steps = run.steps[: choices.new_tokens]
    last, head = steps[-1], view.head
    config, sampling = view.model.config, choices.sampling
    group, layer = config.kv_head(head), min(view.layer, config.n_layers - 1)  # the encoder may have more layers
    of_source = view.part in ("encoder", "cross")
    part = "cross" if of_source else "self"
    generation(
        run.pictures(len(steps)),
        labels(last.pieces),
        prompt_length=steps[0].read,
        keys=last.cache.key(layer, part)[group].numpy(),
        values=last.cache.value(layer, part)[group].numpy(),
        weights=run.weights(len(steps), layer, head, part).numpy(),
        step=looked_at(steps, choices),
        asked=choices.new_tokens,
        running=not run.is_done(choices.new_tokens),
        head_name=f"{'cross-attention, ' if of_source else ''}layer {layer}, head {head}",
        source_labels=labels(last.source_pieces),
        of_source=of_source,
        sampling={
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or config.vocab_size,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "vocabulary": config.vocab_size,
        },
        key="generation",
        on_step=look_at,
        on_branch=take_branch,
    )


def looked_at(steps: list, choices: Choices) -> int:
    last = len(steps) - 1
    return last if choices.step is None else min(choices.step, last)


def look_at(step: int) -> None:
    choose(step=None if step == -1 else step)


def take_branch(step: int, token: int | None) -> None:
    """Take another token at a step, or the drawn one again (None)."""
    choose(branches=write_branches(st.session_state.generation_run.branching(step, token)), step=step)


def draw_costs(run: Run, choices: Choices) -> None:
    steps = run.steps[: choices.new_tokens]
    st.subheader("What the cache saves", help=explained("FLOP", "grouped heads"))
    figure = cost_figure(steps, looked_at(steps, choices), dark=st.context.theme.type == "dark")
    st.plotly_chart(figure, key="costs", config={"displayModeBar": False})
    st.caption(
        "For comparison, each step also runs without the cache, on all tokens again. The times are measured as you "
        "watch. A step of a small model is so short that most of its time is overhead, so the cache may save no time. "
        "Memory for the cache is reserved before the first step; “cache bytes” shows how much of it is in use. "
        "“By formula” is the calculated size of the cache: 2 (K and V) · L layers · G key/value heads · D numbers of a "
        f"head · {'(T + S) tokens of target and source' if steps[0].source else 'S tokens'} · 4 bytes. “Logits differ "
        "by” is the largest difference between the logits with and without the cache. FLOPs are counted by formula: "
        "each multiplication and each addition in the matrix products is one FLOP."
    )


draw()
