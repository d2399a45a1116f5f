"""The one piece of DER that the library leaves to its caller: a SEQUENCE around bytes that are DER already."""


def enclose(content: bytes) -> bytes:
    """Put a SEQUENCE around `content`.

    The library's parser wants a class at the root, where a SEQUENCE OF has none: enclosed, it is a class of one field.
    """
    length = len(content)
    if length < 0x80:
        return bytes((0x30, length)) + content
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((0x30, 0x80 | len(size))) + size + content
