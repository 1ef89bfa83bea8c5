"""Where a user's file is, and the key that it has; nothing of the store is imported for that."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from memstore.errors import InvalidInputError


def usual_file() -> Path:
    """Return the memory file in the user data folder, which is made."""
    import platformdirs

    from memstore.database import make_private_folder

    folder = Path(platformdirs.user_data_dir("memstore", appauthor=False))
    make_private_folder(folder)
    return folder / "memory.db"


def key_of(path: Path, say: Callable[[str], None]) -> bytes:
    """Return the key that a file holds, without the line end after it; `say` is told where others can read it."""
    try:
        with open(path, "rb") as file:
            found, mode = file.read(), os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise InvalidInputError(f"the key file {path} can't be read ({error.strerror}); check --key-file.") from error
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        say(f"others can read the key file {path} (mode {stat.S_IMODE(mode):04o}); chmod 600 it.")
    found = found.removesuffix(b"\n").removesuffix(b"\r")
    if not found:
        raise InvalidInputError(f"the key file {path} is empty; write the key into it.")
    return found
