"""What keeps a hook from answering, and what an answer says when a call cannot be put to the service."""


class HookFailed(Exception):
    """There is no answer: the hook ends with exit code 2, and the message goes to standard error.

    Messages are lower case, say what to do next, and hold neither the key nor what the call is about.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotMapped(Exception):
    """The call is none that the service could be asked about. The message says why, for the model."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
