"""The driver's errors as ours, each naming the file and a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memstore.errors import BusyError, DamagedStoreError, NotAStoreError, ReadOnlyError, StorageError

# How long a write waits for other writers, and anything for a lock.
BUSY_SECONDS = 15.0


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    name = path.name
    try:
        yield
    except apsw.BusyError as error:
        raise BusyError(
            f"{name} was locked by another process for more than {BUSY_SECONDS:.0f} seconds; try again."
        ) from error
    except apsw.NotADBError as error:
        raise NotAStoreError(
            f"{path} is not a memstore file (it does not begin like SQLite); it was left as it is."
        ) from error
    except apsw.CorruptError as error:
        raise DamagedStoreError(f"{path} is damaged ({error}); restore a backup of it.") from error
    except apsw.ReadOnlyError as error:
        raise ReadOnlyError(f"{name} can't be changed: the disk or its permissions forbid it.") from error
    except apsw.FullError as error:
        raise StorageError(f"{name}: the disk is full; nothing of this write was kept. Free some space.") from error
    except apsw.CantOpenError as error:
        raise NotAStoreError(f"{path} can't be opened ({error}); check the folder's permissions.") from error
    except UnicodeDecodeError as error:
        raise DamagedStoreError(f"{path} is damaged (a text in it is no text); restore a backup.") from error
    except apsw.Error as error:
        raise StorageError(f"{name}: SQLite refused ({error}).") from error
