"""What a visitor sees when something is wrong: a page in the same style that says what to do, and never a traceback."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from budgets.errors import InputError, NotFoundError, RlplanError, StoreError
from planner.store.driving import RequestRefusedError
from rlplan.web.dashboard.control import ForgedError
from rlplan.web.dashboard.pages import written

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_CODES: tuple[tuple[type[RlplanError], int], ...] = (
    (ForgedError, 403),
    (RequestRefusedError, 409),
    (NotFoundError, 404),
    (StoreError, 503),
    (InputError, 400),
)
RETRY_SECONDS = 3


def problem(request: "Request", code: int, text: str) -> "Response":
    """Answer with a problem: as a page to who wants one, in a line to who does not."""
    from starlette.responses import HTMLResponse, PlainTextResponse  # noqa: PLC0415

    if code == 401 or not _wants_page(request):
        # A stranger is told this and nothing else, not even what else there is.
        answer: Response = PlainTextResponse(f"{text}\n", status_code=code)
    else:
        again = code == 503
        page = written("problem.html", title=HTTPStatus(code).phrase, text=text, again=again, seconds=RETRY_SECONDS)
        answer = HTMLResponse(page, status_code=code)
    if code == 503:
        answer.headers["retry-after"] = str(RETRY_SECONDS)
    if code == 401:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


def problem_of(request: "Request", error: RlplanError) -> "Response":
    """Answer with what an error says."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), 500)
    return problem(request, code, str(error))


def _wants_page(request: "Request") -> bool:
    return "text/html" in request.headers.get("accept", "") and "hx-request" not in request.headers
