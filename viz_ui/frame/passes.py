"""Passes of the model: kept for the visitor; and those that take a second or more, shown while they run."""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import streamlit as st

import viz_model as vm
from viz_model.jobs import Job
from viz_model.latest import Latest
from viz_model.model.prompts import Tokens
from viz_model.transformer.hooks import follow
from viz_ui.frame.jobs import end_unwatched, finished, is_run_of_fragment
from viz_ui.look.text import plain

LARGE = 20_000_000  # parameters: from here on, work on all of them takes a second or more
A_SECOND_OF_OPERATIONS = 20e9  # multiplications and additions, on two busy cores of a laptop

Prompt = str | Tokens
Result = TypeVar("Result")


def kept_pass(
    kind: str,
    of: Hashable,
    model: vm.Model,
    prompt: Prompt,
    work: Callable[[], Result],
    *,
    most: int,
    can_stop: bool = False,
) -> Result:
    """What `work` gives, or gave before for the same `of`: of each kind the `most` last used are kept for this visitor.

    See `shown_pass`.
    """
    return kept_passes(kind, {of: work}, model, prompt, most=most, can_stop=can_stop)[0]


def kept_passes(
    kind: str,
    passes: Mapping[Hashable, Callable[[], Result]],
    model: vm.Model,
    prompt: Prompt,
    *,
    most: int,
    can_stop: bool = False,
) -> list[Result]:
    """Several passes over prompts of one length, as one piece of work with one button; see `kept_pass`."""
    kept: Latest[Hashable, Result] = st.session_state.setdefault("passes", {}).setdefault(kind, Latest(most))
    missing = [of for of in passes if of not in kept]
    if missing:
        if is_run_of_fragment() and takes_a_second(model, prompt):
            st.rerun(scope="app")  # a whole run can be cut off by a click

        def work() -> None:
            for of in missing:
                kept.get(of, passes[of])

        shown_pass(kind, tuple(passes), model, prompt, work, passes=len(missing), can_stop=can_stop)
    return [kept.get(of, make) for of, make in passes.items()]


def shown_pass(
    kind: str,
    of: Hashable,
    model: vm.Model,
    prompt: Prompt,
    work: Callable[[], Result],
    *,
    passes: int = 1,
    can_stop: bool = False,
) -> Result:
    """What `work` gives, which sends `prompt` through `model` so many times.

    Where that takes about a second or more, a bar says how far it is (a shorter one would only flash).

    kind, of: what the pass is of; two with the same are the same one. can_stop: with a button; for this, and what is
    raised then, see `finished`.
    """
    name = f"{kind}_pass"
    if not takes_a_second(model, prompt):
        end_unwatched(but=(name, of))
        return work()
    attentions = passes * sum(map(model.config.layers_of, model.config.parts))
    words = f"{plain(model.name)} reads the prompt"
    return finished(lambda job: _followed(work, job, attentions), words=words, name=name, of=of, can_stop=can_stop)


def is_small(model: vm.Model) -> bool:
    """Whether work on all of its weights, or a few passes, takes less than about a second."""
    return model.transformer.n_parameters() < LARGE


def takes_a_second(model: vm.Model, prompt: Prompt, passes: int = 1) -> bool:
    """Two operations a parameter and token: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", §2.1."""
    return 2 * model.transformer.n_parameters() * len(model.ids(prompt)) * passes >= A_SECOND_OF_OPERATIONS


def _followed(work: Callable[[], Result], job: Job[Result], attentions: int) -> Result:
    """Do the work and tell how many attentions it has passed, which ends it at the next site after a stop."""
    passed = 0

    def told(site: str) -> None:
        nonlocal passed
        passed += site.endswith(".mixed")
        job.tell(passed, attentions)

    with follow(told):
        return work()
