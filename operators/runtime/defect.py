"""A defect: what a call raised that is no BackendError."""

import traceback

import structlog

from schemas.errors import BackendBadResponse

log = structlog.stdlib.get_logger(__name__)


def defect_of_call(error: BaseException) -> BackendBadResponse:
    """Log an error that is no BackendError; the outcome of the call's requests."""
    # Not the error's own message: it may quote a query or a document.
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("backend call raised an unexpected error", error=type(error).__name__, where=where)
    return BackendBadResponse(f"unexpected error: {type(error).__name__}")
