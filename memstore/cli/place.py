"""The file of a user who names none."""

from pathlib import Path


def usual_file() -> Path:
    """Return the memory file in the user data folder, which is made."""
    import platformdirs

    folder = Path(platformdirs.user_data_dir("memstore", appauthor=False))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "memory.db"
