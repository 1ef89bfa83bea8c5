"""Encryption at rest: the key of a file, and what says that it does not fit."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import apsw

from memstore.errors import EncryptionError, InvalidInputError, NotAStoreError

# A key, or what gives it when the file is opened.
Key: TypeAlias = str | bytes | Callable[[], str | bytes]
# The default of today's driver; named, so that a file is read by the cipher that it was written with.
_CIPHER = "chacha20"
REMEDY = "pip uninstall -y apsw && pip install --force-reinstall apsw-sqlite3mc"


def secret(key: Key | None) -> bytes | None:
    """Return the bytes of a key; raise `EncryptionError` where this driver would store everything in the clear.

    Raises `InvalidInputError` for a key that is empty or is none. A function is asked once.
    """
    if key is None:
        return None
    # Where both builds are installed, the one that was installed last is imported: ask the module, not the metadata.
    if getattr(apsw, "mc_version", None) is None:
        raise EncryptionError(
            "a key was given, and the SQLite driver that is installed (apsw) can't encrypt; nothing was opened."
            f" Put the encrypting build in its place: {REMEDY}"
        )
    given = key() if callable(key) else key
    if not isinstance(given, str | bytes):
        raise InvalidInputError(f"key is {type(given).__name__}; give a str, bytes, or a function that returns one.")
    try:
        found = given.encode() if isinstance(given, str) else given
    except UnicodeEncodeError:
        raise InvalidInputError("key holds half of a surrogate pair, which is no text; give bytes.") from None
    # To the function that spreads a key, one of zero bytes is an empty one.
    if not found.strip(b"\x00"):
        raise InvalidInputError("key is empty; give at least one character, or leave it out for a file in the clear.")
    return found


def unlock(connection: apsw.Connection, key: bytes | None) -> None:
    """Have a connection read and write with a key; whether it fits shows when the file is first read."""
    if key is None:
        return
    connection.pragma("cipher", _CIPHER)
    if connection.pragma("hexkey", key.hex()) != "ok":
        raise EncryptionError("the SQLite driver did not take the key; nothing was read or written.")


def unreadable(path: Path, key: bytes | None) -> NotAStoreError | EncryptionError:
    """Return what is to be said of a file whose first page can't be read with this key, or without one."""
    if key is None:
        return NotAStoreError(
            f"{path} is not a memstore file (it does not begin like SQLite), or it is encrypted and needs its key; "
            "it was left as it is."
        )
    # Its first page is all that is asked for, and no log is to be made beside it.
    plain = apsw.Connection(f"{path.as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        plain.pragma("schema_version")
    except apsw.Error:
        return EncryptionError(
            f"{path} can't be read with this key: it has another one, or it is no memstore file; it was left as it is."
        )
    finally:
        plain.close()
    return EncryptionError(
        f"{path} is not encrypted, and a key was given; open it without, or import its export into a new file with"
        " the key. It was left as it is."
    )
