"""Large messages that a fragment's run has sent, so that the whole run right after it does not send them again.

With each click a browser tells which large messages it keeps, and Streamlit sends a few bytes for one of these. What
`st.rerun` asks for knows of the click only: all that the fragment has sent since would travel twice. See
docs/streamlit.md.
"""

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx


def note_sent() -> None:
    """Begin to note what this run sends; at the beginning of a fragment."""
    context = get_script_run_ctx()
    if context is None or hasattr(context, "large_messages"):
        return
    context.large_messages, send = set(), context._enqueue

    def noted(message: ForwardMsg) -> None:
        send(message)
        if message.metadata.cacheable:
            context.large_messages.add(message.hash)

    context._enqueue = noted


def pass_on_sent() -> None:
    """Let the run that `st.rerun` asks for know what the browser has got in this one, if all of it has left the server.

    What still waits there could be replaced by a reference to itself.
    """
    context = get_script_run_ctx()
    sent = getattr(context, "large_messages", None)
    if not sent:
        return
    session = get_instance().get_app_session(context.session_id)  # None in the server's own visit, and in a test
    if session is not None and session._browser_queue.is_empty():
        context.cached_message_hashes |= sent
