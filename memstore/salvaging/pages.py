"""The pages of a SQLite file, read as bytes (https://www.sqlite.org/fileformat2.html, 1): trees, cells, free pages.

Nothing here knows what the tables mean, and nothing is read that SQLite has given up: neither what is left of deleted
cells inside a page nor, where the list of free pages can be read, those pages.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap

from memstore.salvaging.cells import BrokenRecordError, Value, record, signed, varint
from memstore.salvaging.log import Log

MAGIC = b"SQLite format 3\x00"
_SIZES = tuple(1 << power for power in range(9, 17))
_HEADER = 100
_TABLE_LEAF, _TABLE_INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x05, 0x0A, 0x02
_TABLE = (_TABLE_LEAF, _TABLE_INTERIOR)
_INTERIOR = (_TABLE_INTERIOR, _INDEX_INTERIOR)
_KINDS = (*_TABLE, _INDEX_LEAF, _INDEX_INTERIOR)
# With a broken header the size of the pages is guessed from so many of them.
_MOST_TRIED = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row as a page holds it; `rowid` is None in an index. It is not `whole` where its end can't be read."""

    rowid: int | None
    values: tuple[Value, ...]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The pages of a tree that can be read; it is not `whole` where some page of it can't."""

    pages: tuple[int, ...]
    whole: bool


class Pages:
    """The pages of a file as its log leaves them. `size` is 0 where no size makes any page of it readable."""

    def __init__(self, content: bytes | mmap, log: Log) -> None:
        self._content = content
        self._log = log
        self.size = log.page_size or self._stated_size() or self._guessed_size()
        first = bytes(self.page(1) or b"").ljust(_HEADER, b"\x00")
        self.has_header = (
            self.size > 0
            and first[:16] == MAGIC
            and first[21:24] == b"\x40\x20\x20"
            and _page_size(first) == self.size
            and int.from_bytes(first[44:48], "big") <= 4
        )
        self._usable = self.size - (first[20] if self.has_header else 0)
        self.count = self._counted(first) if self.size else 0
        # Whose file it is, None where the header does not tell.
        self.application_id = int.from_bytes(first[68:72], "big") if self.has_header else None
        self._first_trunk, self._free_count = struct.unpack(">2I", first[32:40])

    def page(self, number: int) -> bytes | None:
        """Return a page, None where there is none, or not all of it."""
        if number < 1 or not self.size:
            return None
        logged = self._log.pages.get(number)
        if logged is not None:
            return logged
        found = self._content[(number - 1) * self.size : number * self.size]
        return found if len(found) == self.size else None

    @cached_property
    def free(self) -> frozenset[int] | None:
        """The pages that belong to nothing, None where the list of them can't be read to its end."""
        if not self.has_header:
            return None
        found: set[int] = set()
        trunk = self._first_trunk
        while trunk:
            page = self.page(trunk) if trunk <= self.count and trunk not in found else None
            if page is None:
                return None
            following, leaves = struct.unpack_from(">2I", page)
            if leaves > self._usable // 4 - 2:
                return None
            found.add(trunk)
            found.update(struct.unpack_from(f">{leaves}I", page, 8))
            if len(found) > self._free_count:
                return None
            trunk = following
        # One that a trunk names twice, or that is none, makes the sum wrong too.
        sound = len(found) == self._free_count and all(1 < number <= self.count for number in found)
        return frozenset(found) if sound else None

    def tree(self, root: int) -> Tree:
        """Return the pages with rows of the tree below a root."""
        found: list[int] = []
        seen: set[int] = set()
        stack, whole = [root], True
        wanted: tuple[int, ...] = _TABLE if self.kind(root) in _TABLE else (_INDEX_LEAF, _INDEX_INTERIOR)
        while stack:
            number = stack.pop()
            kind = self.kind(number)
            if kind not in wanted or number in seen or number in (self.free or ()):
                whole = False
                continue
            seen.add(number)
            if kind in _INTERIOR:
                children, sound = self._children(number)
                stack.extend(children)
                whole = whole and sound
            if kind != _TABLE_INTERIOR:
                found.append(number)
        return Tree(pages=tuple(found), whole=whole)

    def leaves(self) -> Iterator[int]:
        """Yield every page that could hold rows and is not known to be free."""
        last = max((len(self._content) // self.size if self.size else 0, *self._log.pages))
        for number in range(1, min(self.count, last) + 1):
            if self.kind(number) in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR) and number not in (self.free or ()):
                yield number

    def kind(self, number: int) -> int | None:
        """Return which sort of page of a tree a page is by its first byte; None where it is none."""
        page = self.page(number) if number <= self.count else None
        start = _HEADER if number == 1 else 0
        return page[start] if page is not None and page[start] in _KINDS else None

    def cells(self, number: int) -> tuple[list[Cell], bool]:
        """Return the rows of a page, those left out that mean nothing, and whether there are none of those."""
        page, kind = self.page(number), self.kind(number)
        if page is None or kind is None:
            return [], False
        found: list[Cell] = []
        places, sound = self._places(page, number, kind)
        for at in places:
            try:
                found.append(self._cell(page, at, kind))
            except BrokenRecordError:
                sound = False
        return found, sound and all(cell.whole for cell in found)

    def _places(self, page: bytes, number: int, kind: int) -> tuple[list[int], bool]:
        """Return where the cells of a page begin, as far as they can be there."""
        start = _HEADER if number == 1 else 0
        begin = start + (12 if kind in _INTERIOR else 8)
        count, content = struct.unpack_from(">2H", page, start + 3)
        # 0 stands for 65536.
        content = content or 65536
        end = begin + 2 * count
        if end > self._usable or (count and not end <= content <= self._usable):
            return [], False
        places = struct.unpack_from(f">{count}H", page, begin)
        # What lies before the area of the content has been deleted.
        there = [at for at in places if content <= at < self._usable]
        return there, len(there) == len(set(places)) == count

    def _cell(self, page: bytes, at: int, kind: int) -> Cell:
        if kind == _INDEX_INTERIOR:
            at += 4
        size, at = varint(page, at)
        rowid = None
        if kind == _TABLE_LEAF:
            unsigned, at = varint(page, at)
            rowid = signed(unsigned)
        payload = self._payload(page, at, size, kind)
        values, whole = record(payload)
        return Cell(rowid=rowid, values=values, whole=whole and len(payload) == size)

    def _payload(self, page: bytes, at: int, size: int, kind: int) -> bytes:
        """Return the bytes of a row, from its page and those that it runs over to: as many as can be read."""
        local = self._local(size, kind)
        if size > self.count * self._usable or at + local > self._usable:
            raise BrokenRecordError("a row is longer than there is room for it")
        parts, missing = [page[at : at + local]], size - local
        following = int.from_bytes(page[at + local : at + local + 4], "big") if missing else 0
        seen: set[int] = set()
        while missing:
            over = self.page(following) if following <= self.count and following not in seen else None
            if over is None or following in (self.free or ()):
                break
            seen.add(following)
            part = over[4 : 4 + min(missing, self._usable - 4)]
            following = int.from_bytes(over[:4], "big")
            # A page that names no other before the end, or one at the end, is not what it was.
            if (following == 0) != (missing == len(part)):
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _local(self, size: int, kind: int) -> int:
        """Return how many bytes of a row stand in its own page."""
        most = self._usable - 35 if kind == _TABLE_LEAF else (self._usable - 12) * 64 // 255 - 23
        if size <= most:
            return size
        least = (self._usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (self._usable - 4)
        return local if local <= most else least

    def _children(self, number: int) -> tuple[list[int], bool]:
        page, kind = self.page(number), self.kind(number)
        if page is None or kind is None:
            return [], False
        start = _HEADER if number == 1 else 0
        places, sound = self._places(page, number, kind)
        children = [int.from_bytes(page[at : at + 4], "big") for at in places]
        return [*children, int.from_bytes(page[start + 8 : start + 12], "big")], sound

    def _stated_size(self) -> int:
        first = bytes(self._content[:_HEADER])
        return _page_size(first) if first[:16] == MAGIC and _page_size(first) in _SIZES else 0

    def _guessed_size(self) -> int:
        """Return the size with which most of the file reads as pages that are filled from their ends, 0 without any."""

        def readable(size: int) -> int:
            self.size = self._usable = size
            self.count = len(self._content) // size
            return size * sum(self._is_filled(number) for number in range(1, min(self.count, _MOST_TRIED) + 1))

        found = max(_SIZES, key=readable)
        return found if readable(found) else 0

    def _is_filled(self, number: int) -> bool:
        """Say whether a page is a leaf whose rows all can be read, the first that was written ending with the page."""
        page, kind = self.page(number), self.kind(number)
        if page is None or kind not in (_TABLE_LEAF, _INDEX_LEAF):
            return False
        places, sound = self._places(page, number, kind)
        try:
            at = max(places, default=0)
            size, begin = varint(page, at)
            if kind == _TABLE_LEAF:
                begin = varint(page, begin)[1]
            local = self._local(size, kind)
            end = begin + local + (4 if local < size else 0)
        except BrokenRecordError:
            return False
        return sound and bool(places) and end == self._usable

    def _counted(self, first: bytes) -> int:
        """Return how many pages the file has, or had before it was cut short."""
        if self._log.page_count:
            return self._log.page_count
        stated = int.from_bytes(first[28:32], "big")
        if self.has_header and stated and first[24:28] == first[92:96]:
            return stated
        return len(self._content) // self.size


def _page_size(first: bytes) -> int:
    # 1 stands for 65536.
    return {1: 65536}.get(size := int.from_bytes(first[16:18], "big"), size)
