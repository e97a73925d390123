"""Lines between the launcher and a helper, which nobody else can write. A part of what runs on other hosts.

Both ends know the job's token, and neither sends it:
    launcher: NONCE
    helper:   NONCE, then in the same line its first text, sealed
    launcher: a first text, sealed, where it lets the helper in
Each later line, of either end, is a text behind its seal: an HMAC of the line's number and the text. Its key is made of
the token, the sender and both nonces, so that a seal fits one line of one connection. Texts are not encrypted.
"""
import hmac
import secrets

# Of hexadecimal digits.
NONCE_BYTES, SEAL_BYTES = 32, 64
# More than a shim puts in one line, whatever bytes its command wrote.
LINE_BYTES = 1 << 20
WELCOME = b"+"
LAUNCHER, HELPER = b"tutti, launcher to helper", b"tutti, helper to launcher"


class Forged(ConnectionError):
    """A line that the other end cannot have sent, or not as it came. `before`: the texts of the good lines that were
    received with it."""
    before = ()


def new_nonce():
    return secrets.token_hex(NONCE_BYTES // 2).encode()


class Seals:
    """Those of one direction of a connection, in turn."""

    def __init__(self, token, sender, nonces):
        self.key, self.count = hmac.digest(token, sender + nonces, "sha256"), 0

    def next(self, text):
        number = self.count.to_bytes(8, "big")
        self.count += 1
        return hmac.digest(self.key, number + text, "sha256").hex().encode()


class SealedLines:
    """One end of a connection."""

    def __init__(self, connection, token, nonces, sender, peer):
        """`nonces`: the launcher's, then the helper's."""
        self.connection, self.pending = connection, b""
        self.own, self.peers = Seals(token, sender, nonces), Seals(token, peer, nonces)

    def sealed(self, text):
        return self.own.next(text) + text + b"\n"

    def opened(self, line):
        """The text of the line that comes next."""
        seal, text = line[:SEAL_BYTES], line[SEAL_BYTES:]
        if not hmac.compare_digest(seal, self.peers.next(text)):
            raise Forged("a line with a wrong seal came: somebody changed, repeated or made up the line")
        return text

    def send(self, text):
        self.connection.sendall(self.sealed(text))

    def receive(self):
        """The texts of the lines that are complete, perhaps none yet; None at the connection's end. Not to be called
        again after Forged."""
        try:
            data = self.connection.recv(1 << 18)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            return None
        *lines, self.pending = (self.pending + data).split(b"\n")
        texts = []
        try:
            for line in lines:
                texts.append(self.opened(line))
            if len(self.pending) > LINE_BYTES:
                raise Forged("a line came that has no end")
        except Forged as error:
            error.before = texts
            raise
        return texts


def launchers_end(connection, token, nonce, line):
    """(the launcher's end, the helper's first text) by the helper's first line, which answers this nonce."""
    nonces = nonce + line[:NONCE_BYTES]
    lines = SealedLines(connection, token, nonces, LAUNCHER, HELPER)
    return lines, lines.opened(line[NONCE_BYTES:])


def helpers_end(connection, token, nonce, text):
    """(the helper's end, its first line) for the launcher's nonce."""
    own = new_nonce()
    lines = SealedLines(connection, token, nonce + own, HELPER, LAUNCHER)
    return lines, own + lines.sealed(text)
