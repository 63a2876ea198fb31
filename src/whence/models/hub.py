"""Files on the Hub: one that is read, and a folder that is put there."""

from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

from whence.errors import BadInput


def file_of(repository: str, file: str) -> Path:
    """Where it is on this machine, downloaded if it has to be."""
    try:
        return Path(hf_hub_download(repository, file))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise BadInput(f"The file {file!r} of {repository!r} cannot be had from the Hub ({reason}).") from error


def upload(folder: str, repository: str, private: bool, apart: Iterable[str]) -> str:
    """Puts a folder on the Hub as a data set, made if there is none, but for some files; its address."""
    try:
        hub = HfApi()
        address = hub.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        hub.upload_folder(folder_path=folder, repo_id=repository, repo_type="dataset", ignore_patterns=list(apart))
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise BadInput(
            f"{repository!r} cannot be written on the Hub ({reason}); `hf auth login` says who you are."
        ) from error
    return str(address)
