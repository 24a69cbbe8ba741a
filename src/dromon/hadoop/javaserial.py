"""Java's serialised objects, as far as the index of an IFile needs them. No class is ever loaded.

An object comes out as an `Instance`: the name of its class, its fields, and what its class wrote
beside them (the elements of an ArrayList, the keys and values of a HashMap).
"""

from __future__ import annotations

import struct
from typing import Any

from dromon.hadoop.extents import DamagedLog, java_text

HEADER = b"\xac\xed\x00\x05"
DEEPEST = 64  # an index is nine levels deep

NULL, REFERENCE, CLASS_DESC, OBJECT, STRING, ARRAY, CLASS = range(0x70, 0x77)
BLOCK_DATA, END_BLOCK, RESET, LONG_BLOCK, EXCEPTION, LONG_STRING, PROXY, ENUM = range(0x77, 0x7F)
WRITE_METHOD, SERIALIZABLE, EXTERNALIZABLE = 1, 2, 4
FIRST_HANDLE = 0x7E0000
NUMBERS = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}


class Instance:
    """An object. `written` is what its class wrote by itself: bytes and objects in order."""

    __slots__ = ("fields", "kind", "written")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.fields: dict[str, Any] = {}
        self.written: list[Any] = []


class ClassDesc:
    """What a stream tells of a class: its flags, its fields and its parent."""

    __slots__ = ("fields", "flags", "name", "parent")

    def __init__(self, name: str) -> None:
        self.name = name
        self.flags = 0
        self.fields: list[tuple[str, str]] = []  # type code, name
        self.parent: ClassDesc | None = None


def loads(data: bytes) -> Any:
    """The one object that `data` holds, and nothing may follow it."""
    if not data.startswith(HEADER):
        raise DamagedLog("The index is no serialised Java object.")
    reader = _Reader(data)
    found = reader.content()
    if reader.at != len(data):
        raise DamagedLog("The index goes on after its end.")
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = len(HEADER)
        self._handles: list[Any] = []
        self._depth = 0

    def content(self) -> Any:
        self._depth += 1
        if self._depth > DEEPEST:
            raise DamagedLog("The objects of the index are nested too deep.")
        try:
            return self._content(self._take(1)[0])
        finally:
            self._depth -= 1

    def _content(self, code: int) -> Any:
        if code == NULL:
            return None
        if code == REFERENCE:
            return self._known(Any)
        if code in (STRING, LONG_STRING):
            return self._remember(self._long_text() if code == LONG_STRING else self._text())
        if code == OBJECT:
            return self._object()
        if code == ENUM:
            self._class_desc()
            handle = self._remember_later()
            name = self._expect(str)
            self._handles[handle] = name
            return name
        if code == ARRAY:
            return self._array()
        raise DamagedLog(f"The index has something of kind {code:#04x} in it, which no index has.")

    def _object(self) -> Instance:
        described = self._class_desc()
        if described is None:
            raise DamagedLog("The index has an object of no class in it.")
        found: Instance = self._remember(Instance(described.name))
        lineage = []
        above: ClassDesc | None = described
        while above is not None:
            lineage.append(above)
            above = above.parent
        for each in reversed(lineage):  # Java writes the parent's part first
            if each.flags & EXTERNALIZABLE or not each.flags & SERIALIZABLE:
                raise DamagedLog(f"{each.name} of the index is not written as Java writes objects.")
            for code, name in each.fields:
                found.fields[name] = self._field(code)
            if each.flags & WRITE_METHOD:
                found.written += self._annotation()
        return found

    def _array(self) -> list[Any]:
        described = self._class_desc()
        if described is None or len(described.name) < 2:
            raise DamagedLog("The index has an array of no class in it.")
        found: list[Any] = self._remember([])
        count, code = self._number("i"), described.name[1]
        if not 0 <= count <= len(self._data) - self.at:
            raise DamagedLog(f"An array of {count:,} elements does not fit into the index.")
        for _ in range(count):
            found.append(self._field(code))
        return found

    def _field(self, code: str) -> Any:
        return self._number(NUMBERS[code]) if code in NUMBERS else self.content()

    def _annotation(self) -> list[Any]:
        """Bytes and objects, up to the mark that ends them."""
        found: list[Any] = []
        while True:
            code = self._take(1)[0]
            if code == END_BLOCK:
                return found
            if code == BLOCK_DATA:
                found.append(self._take(self._take(1)[0]))
            elif code == LONG_BLOCK:
                found.append(self._take(self._number("i")))
            else:
                self.at -= 1
                found.append(self.content())

    def _class_desc(self) -> ClassDesc | None:
        code = self._take(1)[0]
        if code == NULL:
            return None
        if code == REFERENCE:
            known: ClassDesc = self._known(ClassDesc)
            return known
        if code != CLASS_DESC:
            raise DamagedLog("The index does not say of what class an object is.")
        self._depth += 1
        if self._depth > DEEPEST:
            raise DamagedLog("The classes of the index are nested too deep.")
        described: ClassDesc = self._remember(ClassDesc(self._text()))
        self._take(8)  # its serialVersionUID
        described.flags = self._take(1)[0]
        for _ in range(self._number("H")):
            kind = chr(self._take(1)[0])
            described.fields.append((kind, self._text()))
            if kind in "[L":
                self._expect(str)  # the class of the field
            elif kind not in NUMBERS:
                raise DamagedLog(f"{described.name} of the index has a field of no known kind.")
        self._annotation()
        parent = self._class_desc()
        above = parent
        while above is not None:  # a class may name only one that was complete before
            if above is described:
                raise DamagedLog(f"{described.name} of the index is its own parent.")
            above = above.parent
        described.parent = parent
        self._depth -= 1
        return described

    def _expect(self, kind: type) -> Any:
        found = self.content()
        if not isinstance(found, kind):
            raise DamagedLog("The index names something by what is no name.")
        return found

    def _known(self, kind: Any) -> Any:
        number = self._number("i") - FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            raise DamagedLog("The index refers to what is not in it.")
        found = self._handles[number]
        if kind is not Any and not isinstance(found, kind):
            raise DamagedLog("The index refers to something of another kind.")
        return found

    def _remember(self, found: Any) -> Any:
        self._handles.append(found)
        return found

    def _remember_later(self) -> int:
        self._handles.append(None)
        return len(self._handles) - 1

    def _text(self) -> str:
        return java_text(self._take(self._number("H")))

    def _long_text(self) -> str:
        return java_text(self._take(self._number("q")))

    def _number(self, form: str) -> Any:
        return struct.unpack(">" + form, self._take(struct.calcsize(">" + form)))[0]

    def _take(self, size: int) -> bytes:
        start = self.at
        if not 0 <= size <= len(self._data) - start:
            raise DamagedLog(f"The index breaks off: {size:,} bytes expected.")
        self.at = start + size
        return self._data[start : self.at]
