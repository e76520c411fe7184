"""Reads files of events as TensorBoard does, with nothing but Python: the
framing of TFRecord with both its checksums, and as much of the protobuf wire
format as scalars need."""

import struct


class DamagedFile(Exception):
    """What the file holds is no sequence of records."""


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC_TABLE = _crc_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The bytes of each record; DamagedFile when a checksum is wrong."""
    at = 0
    while at < len(data):
        if len(data) - at < 12:
            raise DamagedFile(f"{len(data) - at} bytes at the end")
        length = data[at:at + 8]
        if struct.unpack("<I", data[at + 8:at + 12])[0] != masked_crc32c(
                length):
            raise DamagedFile(f"length at byte {at}")
        size = struct.unpack("<Q", length)[0]
        body = data[at + 12:at + 12 + size]
        tail = data[at + 12 + size:at + 16 + size]
        if len(body) != size or len(tail) != 4 or struct.unpack(
                "<I", tail)[0] != masked_crc32c(body):
            raise DamagedFile(f"record at byte {at}")
        yield body
        at += 16 + size


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(message):
    """(number, value) of each field; bytes for what has a length."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", message, at)[0], at + 8
        elif kind == 2:
            size, at = _varint(message, at)
            value, at = message[at:at + size], at + size
        elif kind == 5:
            value, at = struct.unpack_from("<f", message, at)[0], at + 4
        else:
            raise DamagedFile(f"wire type {kind}")
        yield key >> 3, value


class Event:
    """tensorflow.Event: wall_time 1, step 2, file_version 3, summary 5."""

    def __init__(self, message):
        self.wall_time = 0.0
        self.step = 0
        self.file_version = ""
        self.scalars = {}
        for number, value in fields(message):
            if number == 1:
                self.wall_time = value
            elif number == 2:
                self.step = value
            elif number == 3:
                self.file_version = value.decode()
            elif number == 5:
                for summary_number, item in fields(value):
                    assert summary_number == 1, summary_number
                    point = dict(fields(item))
                    self.scalars[point[1].decode()] = point[2]


def events(path):
    with open(path, "rb") as file:
        return [Event(record) for record in records(file.read())]
