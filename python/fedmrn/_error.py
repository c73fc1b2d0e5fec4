"""What the core refuses."""

from __future__ import annotations

from typing import Optional


class FrameError(ValueError):
    """Bytes that are no sound frame, a frame that is not meant for its
    receiver, or values that no frame can carry.

    ``offset`` is that of the offending byte in the frame, or None; ``code`` one
    of ``truncated``, ``bad-format``, ``bad-checksum``, ``bad-value``,
    ``not-finite``, ``foreign`` (of another model, run, codec or noise),
    ``stale`` (of another round), ``duplicate`` and ``full``.
    """

    __module__ = "fedmrn"

    def __init__(self, message: str, code: str = "bad-value",
                 offset: Optional[int] = None):
        super().__init__(message, code, offset)
        self.message = message
        self.code = code
        self.offset = offset

    def __str__(self) -> str:
        if self.offset is None:
            return self.message
        return f"offset {self.offset}: {self.message}"
