"""A command's output in messages to the launcher: whole lines, and parts of one that is long or that stays unfinished.
A part of what runs on other hosts."""
import time

# After which a part of a line is passed on: a command that asks or waits has said it to be seen.
PAUSE_SECONDS = 0.2
PIECE_BYTES = 65536


def whole_characters(data):
    """How many bytes come before a character of UTF-8 that is not complete yet."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            return len(data) - back if back < 2 + (byte >= 0xE0) + (byte >= 0xF0) else len(data)
        if byte < 0x80:
            break
    return len(data)


class Lines:
    """Those of one stream, as they come."""

    def __init__(self, stream, send):
        """`send`: to the launcher, as `message_of` there has it."""
        self.stream, self.send = stream, send
        self.rest = b""       # of a line that is not finished, and was not sent yet
        self.is_sent = False  # is the begin of that line
        self.pause_at = None  # when the rest is sent

    def take(self, data):
        """Empty data is the end."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        if not data and (self.rest or self.is_sent):
            lines, self.rest = lines + [self.rest], b""
        if lines:
            self.is_sent, self.pause_at = False, None
            self.send(stream=self.stream, lines=[text_of(line) for line in lines])
        if len(self.rest) > PIECE_BYTES:
            self.send_rest("more")
        elif self.rest and self.pause_at is None:
            self.pause_at = time.monotonic() + PAUSE_SECONDS

    def pause(self):
        """Sends what is there, if it is time."""
        if self.pause_at is not None and time.monotonic() >= self.pause_at:
            self.send_rest("pause")

    def send_rest(self, why):
        length = whole_characters(self.rest)
        piece, self.rest, self.pause_at = self.rest[:length], self.rest[length:], None
        if piece:
            self.is_sent = True
            self.send(stream=self.stream, lines=[text_of(piece)], open=why)


def text_of(line):
    return line.decode("utf-8", "surrogateescape")
