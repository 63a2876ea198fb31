"""One file of a repository on the Hub."""

from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from whence.errors import BadInput


def file_of(repository: str, file: str) -> Path:
    """Where it is on this machine, downloaded if it has to be."""
    try:
        return Path(hf_hub_download(repository, file))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise BadInput(f"The file {file!r} of {repository!r} cannot be had from the Hub ({reason}).") from error
