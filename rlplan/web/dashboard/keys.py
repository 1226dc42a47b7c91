"""What a dashboard knows its visitors by: its token, the cookie that stands for it, and the seal on its forms."""

import hashlib
import hmac
import re
import secrets

_SESSION = re.compile(r"[A-Za-z0-9_-]{24}")


class Keys:
    """Tells whether a token, a cookie or a form is genuine; everything is compared in constant time."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        # Without a token nothing but this process can tell its forms; they are void when it ends.
        self._secret = token.encode() if token else secrets.token_bytes(32)

    @property
    def are_needed(self) -> bool:
        """Whether a visitor has to show anything."""
        return self._token is not None

    @property
    def cookie(self) -> str:
        """What the cookie holds: it opens this dashboard, but does not tell the token."""
        return self._derived("cookie")

    def fits(self, token: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and _same(token, self._token)

    def fits_cookie(self, cookie: str) -> bool:
        """Whether this is the cookie that stands for the token."""
        return self._token is not None and _same(cookie, self.cookie)

    def seal(self, session: str) -> str:
        """Return what a form shown in a session has to bring back."""
        return self._derived(f"form of {session}")

    def sealed(self, session: str, seal: str) -> bool:
        """Whether a form was shown in that session."""
        return bool(session) and _same(seal, self.seal(session))

    def _derived(self, purpose: str) -> str:
        return hmac.new(self._secret, f"rlplan dashboard: {purpose}".encode(), hashlib.sha256).hexdigest()


def new_session() -> str:
    """Make a name for a visitor's session that nobody can guess."""
    return secrets.token_urlsafe(18)


def is_session(given: str) -> bool:
    """Whether that can be the name of a session; who makes one up instead is given another."""
    return _SESSION.fullmatch(given) is not None


def _same(given: str, right: str) -> bool:
    # Digests are compared, so that not even the length shows.
    return hmac.compare_digest(_digest(given), _digest(right))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
