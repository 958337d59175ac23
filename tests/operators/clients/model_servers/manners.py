"""Manners of embedders' and rerankers' servers by name, and what comes of each: the one table of them.

Tests play each of them; docs/reference/backends.md sums them up.
"""

from dataclasses import replace
from typing import Any, Final

from tests.operators.clients.model_servers.playing import (
    DIMENSION,
    Manner,
    Reply,
    Row,
    always,
    at_first,
    beyond,
    to_more_than,
    to_spoilt,
)

BLANK: Final = "\u200b"
"""A text that is no white space to Python, and has nothing to read."""


def openai_error(status: int, message: str, kind: str = "invalid_request_error", **headers: str) -> Reply:
    """An error of OpenAI's form."""
    error = {"message": message, "type": kind, "param": None, "code": None}
    return Reply(status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()})


def vllm_error(message: str) -> Reply:
    """An error of vLLM's."""
    return Reply(400, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}})


def tei_error(status: int, message: str, kind: str) -> Reply:
    """An error of text-embeddings-inference."""
    return Reply(status, {"error": message, "error_type": kind})


def llama_error(status: int, message: str, kind: str) -> Reply:
    """An error of llama-server."""
    return Reply(status, {"error": {"code": status, "message": message, "type": kind}})


def detail(status: int, said: Any) -> Reply:
    """An error of FastAPI's form."""
    return Reply(status, {"detail": said})


CONTEXT: Final = "This model's maximum context length is 512 tokens. However, you requested 9031 tokens in the input."
NOT_A_NUMBER: Final = Reply(500, {"error": "failed to encode response: json: unsupported value: NaN"})
TOO_LARGE: Final = llama_error(
    500,
    "input (9031 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
    "server_error",
)
OVERLOADED: Final = tei_error(429, "Model is overloaded", "Overloaded")
LOADING: Final = llama_error(503, "Loading model", "unavailable_error")
NO_UPSTREAM: Final = Reply(502, "<html><head><title>502 Bad Gateway</title></head></html>")
LOST: Final = Reply(200, {"error": {"message": "Provider returned error", "code": 502}, "user_id": "u"})
BUSY: Final = Reply(503, {"error": "server busy, please try again. maximum pending requests exceeded"})
WRONG_KEY: Final = openai_error(401, "Incorrect API key provided", "invalid_request_error")
NULLS: Final = Row([None] * DIMENSION)
ZEROS: Final = Row([0.0] * DIMENSION)
DENSE: Final = Reply(200, {"data": [{"index": 0, "embedding": [0.5] * DIMENSION}]})

NOT_A_NUMBER_500: Final = Manner(
    "Ollama", "openai", "a vector of NaN: 500 `unsupported value: NaN`", to_spoilt(NOT_A_NUMBER)
)
NULLS_200: Final = Manner("llama-server", "openai", "a vector of NaN: 200 with nulls", to_spoilt(NULLS))
ZEROS_200: Final = Manner("LocalAI", "openai", "200 with a vector of zeros", to_spoilt(ZEROS))
TOO_LARGE_500: Final = Manner(
    "llama-server", "openai", "a text over the physical batch: 500 `too large to process`", to_spoilt(TOO_LARGE)
)
CONTEXT_400: Final = Manner(
    "vLLM", "openai", "a text over the context: 400 `maximum context length`", to_spoilt(vllm_error(CONTEXT))
)

TEI_LIMITS: Final[tuple[Manner, ...]] = (
    Manner(
        "text-embeddings-inference",
        "tei",
        "a call over the batch size: 413",
        to_more_than(4, tei_error(413, "batch size 8 > maximum allowed batch size 4", "Validation")),
        "all answered",
    ),
    Manner("text-embeddings-inference", "tei", "too many texts: 429", beyond(8, OVERLOADED), "all answered"),
)
"""Manners of text-embeddings-inference whatever its model."""

EMBEDDERS: Final[tuple[Manner, ...]] = (
    Manner("OpenAI", "openai", "a text over the context: 400", to_spoilt(openai_error(400, CONTEXT))),
    Manner(
        "OpenAI",
        "openai",
        "a blank text: 400",
        to_spoilt(openai_error(400, "'$.input' is invalid. Please check the API reference")),
        text=BLANK,
    ),
    Manner(
        "OpenAI",
        "openai",
        "a rate limit: 429 with Retry-After",
        at_first(2, openai_error(429, "Rate limit reached for requests", "requests", retry_after="1")),
        "all answered",
    ),
    Manner(
        "OpenAI",
        "openai",
        "no quota left: 429 to every call",
        always(openai_error(429, "You exceeded your current quota", "insufficient_quota")),
        "waited for",
    ),
    Manner("OpenAI", "openai", "a wrong key: 401", always(WRONG_KEY), "waited for"),
    CONTEXT_400,
    NOT_A_NUMBER_500,
    Manner(
        "Ollama",
        "openai",
        "a text over the context: 500",
        to_spoilt(
            Reply(500, {"error": {"message": "the input length exceeds the context length", "type": "api_error"}})
        ),
    ),
    Manner("Ollama", "openai", "a blank text: 200 with an empty vector", to_spoilt(Row([])), text=BLANK),
    Manner("Ollama", "openai", "too many calls: 503", beyond(8, BUSY), "all answered"),
    NULLS_200,
    TOO_LARGE_500,
    Manner("llama-server", "openai", "it loads the model: 503 at first", at_first(2, LOADING), "all answered"),
    Manner(
        "llama-server",
        "openai",
        "a model without pooling: 400 to every call",
        always(llama_error(400, "Pooling type 'none' is not OAI compatible", "invalid_request_error")),
        "waited for",
    ),
    ZEROS_200,
    Manner(
        "LocalAI",
        "openai",
        "the backend fails for a text: 500 `rpc error`",
        to_spoilt(llama_error(500, "rpc error: code = Unknown desc = unexpected tensor", "")),
    ),
    Manner("infinity", "openai", "a vector of NaN: 200 with nulls", to_spoilt(NULLS)),
    Manner("Xinference", "openai", "a vector as base64, not as asked", to_spoilt(Row("AACAPwAAAEA="))),
    Manner("text-embeddings-inference", "tei", "a vector of NaN: 200 with nulls", to_spoilt(NULLS)),
    Manner(
        "text-embeddings-inference",
        "tei",
        "a blank text: 400 `cannot be empty`",
        to_spoilt(tei_error(400, "`inputs` cannot be empty", "Empty")),
        text=BLANK,
    ),
    Manner(
        "text-embeddings-inference",
        "tei",
        "the backend fails for a text: 424",
        to_spoilt(tei_error(424, "inference error", "Backend")),
    ),
    *TEI_LIMITS,
    Manner("any gateway", "openai", "no upstream for a while: 502 in HTML", at_first(2, NO_UPSTREAM), "all answered"),
    Manner(
        "any gateway", "openai", "no upstream for a while: 502 in an answer of 200", at_first(2, LOST), "all answered"
    ),
    Manner("any gateway", "openai", "a wrong path: 404 in HTML", always(Reply(404, "<html></html>")), "waited for"),
    Manner(
        "any server",
        "openai",
        "it fails for every text: 500",
        always(openai_error(500, "CUDA error: an illegal memory access was encountered", "server_error")),
        "waited for",
    ),
)

SPARSE_ENCODERS: Final[tuple[Manner, ...]] = (
    Manner(
        "text-embeddings-inference",
        "tei",
        "a value of NaN: 200 with null",
        to_spoilt(Row([{"index": 7, "value": None}])),
    ),
    Manner(
        "text-embeddings-inference",
        "tei",
        "a blank text: 400 `cannot be empty`",
        to_spoilt(tei_error(400, "`inputs` cannot be empty", "Empty")),
        "not sent",
        BLANK,
    ),
    Manner(
        "text-embeddings-inference",
        "tei",
        "the model is no SPLADE: 424 to every call",
        always(tei_error(424, "Model is not an embedding model with SPLADE pooling", "Backend")),
        "waited for",
    ),
    *TEI_LIMITS,
    Manner("SGLang", "openai", "dense vectors, for want of a sparse head", always(DENSE), "waited for"),
    Manner("Xinference", "openai", "the model fails for a text: 500", to_spoilt(detail(500, "unexpected tensor"))),
)

RERANKERS: Final[tuple[Manner, ...]] = (
    Manner(
        "Cohere",
        "cohere",
        "a blank text: 400",
        to_spoilt(Reply(400, {"message": "invalid request: list of documents must not contain empty strings"})),
        "not sent",
        BLANK,
    ),
    Manner(
        "Cohere",
        "cohere",
        "a rate limit: 429",
        at_first(2, Reply(429, {"message": "You are using a Trial key, which is limited to 10 API calls / minute"})),
        "all answered",
    ),
    Manner("Cohere", "cohere", "a wrong key: 401", always(Reply(401, {"message": "invalid api token"})), "waited for"),
    Manner("Jina", "jina", "a blank text: 422", to_spoilt(detail(422, "documents cannot be empty")), "not sent", BLANK),
    Manner(
        "Voyage",
        "voyage",
        "a blank text: 400",
        to_spoilt(detail(400, "Input cannot contain empty strings")),
        "not sent",
        BLANK,
    ),
    Manner(
        "Voyage",
        "voyage",
        "too many tokens in a call: 400",
        to_more_than(3, detail(400, "The max allowed tokens per submitted batch is 600000")),
        "all answered",
    ),
    Manner(
        "DashScope",
        "dashscope",
        "too many tokens in a call: 400",
        to_more_than(
            3, Reply(400, {"code": "InvalidParameter", "message": "Range of input length should be [1, 30000]"})
        ),
        "all answered",
    ),
    Manner(
        "DashScope",
        "dashscope",
        "a rate limit: 429",
        at_first(2, Reply(429, {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded"})),
        "all answered",
    ),
    Manner(
        "Mixedbread",
        "mixedbread",
        "a blank text: 422",
        to_spoilt(
            detail(422, [{"type": "string_too_short", "loc": ["body", "input", 1], "msg": "at least 1 character"}])
        ),
        "not sent",
        BLANK,
    ),
    Manner(
        "NVIDIA NIM",
        "nim",
        "a blank text: 422",
        to_spoilt(
            detail(422, [{"type": "string_too_short", "loc": ["body", "passages"], "msg": "at least 1 character"}])
        ),
        "not sent",
        BLANK,
    ),
    Manner("vLLM", "vllm", "a text over the context: 400 `maximum context length`", to_spoilt(vllm_error(CONTEXT))),
    Manner("vLLM", "vllm_score", "a text over the context: 400", to_spoilt(vllm_error(CONTEXT))),
    Manner(
        "SGLang",
        "sglang",
        "a text over the context: 400",
        to_spoilt(
            Reply(
                400,
                {
                    "object": "error",
                    "message": "The input (9031 tokens) is longer than the model's context length (512 tokens).",
                    "type": "BadRequestError",
                    "param": None,
                    "code": 400,
                },
            )
        ),
    ),
    Manner(
        "llama-server",
        "llama_server",
        "a text over the physical batch: 500 `too large to process`",
        to_spoilt(TOO_LARGE),
    ),
    Manner("llama-server", "llama_server", "a score of NaN: 200 with null", to_spoilt(Row(None))),
    Manner("llama-server", "llama_server", "it loads the model: 503 at first", at_first(2, LOADING), "all answered"),
    Manner("infinity", "infinity", "a score of NaN: 200 with null", to_spoilt(Row(None))),
    Manner(
        "Xinference",
        "xinference",
        "the model fails for a text: 500",
        to_spoilt(detail(500, "[address=0.0.0.0:43211, pid=77] The expanded size of the tensor must match")),
    ),
    Manner(
        "LocalAI",
        "localai",
        "the backend fails for a text: 500 `rpc error`",
        to_spoilt(llama_error(500, "rpc error: code = Unknown desc = unexpected tensor", "")),
    ),
    Manner("text-embeddings-inference", "tei", "too many texts: 429", beyond(8, OVERLOADED), "all answered"),
    Manner("text-embeddings-inference", "tei", "a score of NaN: 200 with null", to_spoilt(Row(None))),
    Manner(
        "text-embeddings-inference",
        "tei",
        "the backend fails for a text: 424",
        to_spoilt(tei_error(424, "inference error", "Backend")),
    ),
    Manner(
        "text-embeddings-inference",
        "tei",
        "a call over the batch size: 413",
        to_more_than(4, tei_error(413, "batch size 8 > maximum allowed batch size 4", "Validation")),
        "all answered",
    ),
    Manner("text-embeddings-inference", "tei_predict", "a score of NaN: 200 with null", to_spoilt(Row(None))),
    Manner("any gateway", "cohere", "no upstream for a while: 502 in HTML", at_first(2, NO_UPSTREAM), "all answered"),
    Manner(
        "any gateway", "cohere", "no upstream for a while: 502 in an answer of 200", at_first(2, LOST), "all answered"
    ),
    Manner(
        "any gateway",
        "cohere",
        "no room for a while: 503 with Retry-After",
        at_first(1, Reply(503, {"error": "no healthy upstream"}, {"retry-after": "1"})),
        "all answered",
    ),
    Manner("any server", "cohere", "it fails for every text: 500", always(Reply(500, {})), "waited for"),
)

POISON: Final = tuple(
    replace(manner, text=f"poison{number}")
    for number, manner in enumerate((NOT_A_NUMBER_500, NULLS_200, ZEROS_200, TOO_LARGE_500, CONTEXT_400))
)
"""The forms of one text that an embedder cannot digest, each with a text of its own."""
