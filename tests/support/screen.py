"""What of Streamlit a run touches that waits for work, in place of it."""


class Screen:
    """What of Streamlit a waiting run touches. click: called at each drawing of the bar; stops: whether Stop is on."""

    def __init__(self):
        self.session_state, self.bars, self.buttons = {}, [], []
        self.click, self.stops = lambda: None, False

    def progress(self, share, words):
        self.bars.append((share, words))
        self.click()
        return self

    def button(self, label, **options):
        self.buttons.append(label)
        return self.stops and label == "Stop"

    def __getattr__(self, name):  # containers and words
        return lambda *_, **options: self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
