"""What whence says when it cannot go on: one sentence with what was found, what was expected, what to do."""


class WhenceError(Exception):
    """Every error that is the user's to fix; the command line prints its sentence and exits with 2."""


class BadInput(WhenceError, ValueError):
    """The text, file, name or number given cannot be used."""


class TooLong(BadInput):
    """The text has more tokens than the model takes."""


class Unsupported(WhenceError):
    """The model cannot give what was asked for."""


class VerificationFailed(WhenceError):
    """The captured parts do not add up to what the model computed, so nothing is measured."""
