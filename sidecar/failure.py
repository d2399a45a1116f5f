"""What ends a command: one exception with a text for the user, so that nobody ever meets a traceback."""


class CommandFailed(Exception):
    """The command cannot do what was asked. The text may hold several lines, one per fault; `code` is the exit code."""

    def __init__(self, text: str, code: int = 2) -> None:
        super().__init__(text)
        self.code = code
