"""Long work: its progress, its Stop button, and how it is taken up again."""

from streamlit.testing.v1 import AppTest


def page():
    import streamlit as st

    from viz_ui.frame.stoppable import stoppable

    def work(progress):
        for step in range(1, 4):
            progress(step / 3)
            st.session_state.setdefault("shares", []).append(step / 3)
            if st.session_state.pop("interrupt", False):
                st.stop()  # the run ends here, as a click ends it
        return "the result"

    st.text(stoppable("Counting", work, name="count", of=st.session_state.get("thing", "first")) or "nothing")


def texts(test):
    return [text.value for text in test.text]


def test_work_that_is_not_stopped_gives_its_result_and_leaves_nothing_behind():
    test = AppTest.from_function(page, default_timeout=120).run()
    assert texts(test) == ["the result"]
    assert test.session_state["shares"][-1] == 1.0
    assert not test.button


def test_what_was_stopped_is_not_begun_again_until_asked_for():
    test = AppTest.from_function(page, default_timeout=120)
    test.session_state["count_stopped"] = "first"  # as the Stop button notes it
    test.run()
    assert texts(test) == ["nothing"]
    assert "shares" not in test.session_state
    assert "Counting" in test.markdown[0].value
    [button] = test.button
    button.click().run()
    assert texts(test) == ["the result"]


def test_a_stop_is_of_one_thing_only():
    test = AppTest.from_function(page, default_timeout=120)
    test.session_state["count_stopped"] = "first"
    test.session_state["thing"] = "second"
    assert texts(test.run()) == ["the result"]


def test_a_stop_ends_what_was_chosen_just_before_the_click_too():
    test = AppTest.from_function(page, default_timeout=120)
    test.session_state["interrupt"] = True
    test.run()
    [stop] = test.button
    assert stop.label == "Stop"
    test.session_state["thing"] = "second"  # one run hears of both, as when the page had not drawn the choice yet
    stop.click().run()
    assert texts(test) == ["nothing"]
    assert test.session_state["shares"] == [1 / 3]
    assert test.session_state["count_stopped"] == "second"
    test.button[0].click().run()
    assert texts(test) == ["the result"]
