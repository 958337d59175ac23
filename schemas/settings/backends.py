"""Sections `embedder`, `sparse_encoder`, `rerank` and `chat`: the models that the flows call."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, get_args

from pydantic import Field, JsonValue, StringConstraints, field_validator

from schemas.fields import Answer, Newer, Point
from schemas.settings.section import Amount, Body, Concurrency, Count, JsonObject, ModelServer, Seconds, Url


class EmbedderSettings(ModelServer):
    """The embedder."""

    kind: Point[Literal["minilm", "openai", "tei", "cohere", "voyage", "nim", "none"]] = "minilm"
    """minilm: in this process; others: a server at `url`; none: queries and documents bring their own vectors."""
    url: Url | None = Field(default=None, description="Address of the server, without the kind's path.")
    model: Point[str] = "all-MiniLM-L6-v2"
    """Model name; sent to all servers but tei, recorded in results."""
    precision: Newer[Answer[Literal["auto", "int8", "float32"]]] = "auto"
    """For minilm: bits of its products; auto: int8 where the processor has instructions for it (VNNI, AMX, Arm's dot
    products), else float32."""
    dimensions: Newer[Point[Count | None]] = None
    """Components to ask for, of models that can shorten vectors; equal to qdrant.dimension."""
    prompts: Literal["none", "e5", "nomic", "embeddinggemma", "qwen3", "bge"] = "none"
    """Model family whose prefixes go before the texts."""
    query_prefix: str | None = None
    """Prefix of queries; null: that of `prompts`."""
    document_prefix: str | None = None
    """Prefix of documents; null: that of `prompts`."""
    query_prompt_name: str | None = None
    """For tei: name of the prompt for queries in the model's configuration."""
    document_prompt_name: str | None = Field(default=None, description="The same for documents.")
    timeout: Seconds = Field(default=2.0, description="Seconds to embed a query, its wait in the replica included.")
    max_batch: Count = Field(default=32, description="Texts in one request.")
    max_concurrency: Concurrency = 8
    cache_mib: Amount = 64
    """MiB of query embeddings to cache, by namespace and text; 0: no cache."""

    servers: ClassVar = ("openai", "tei", "cohere", "voyage", "nim")
    used_by: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "precision": ("minilm",),
        **dict.fromkeys(("model", "dimensions", "prompts", "query_prefix", "document_prefix"), servers),
        **dict.fromkeys(("query_prompt_name", "document_prompt_name"), ("tei",)),
    }

    @property
    def purposes(self) -> Mapping[str, Mapping[str, str]] | None:
        """The prompts of a `query` and of a `document`, as far as there are any; None without an embedder.

        `prefix` is put before the text, the rest are fields of the request.
        """
        if self.kind == "none":
            return None
        prefixes, types = _PREFIXES[self.prompts], _INPUT_TYPES.get(self.kind, {})
        own = {"query": self.query_prefix, "document": self.document_prefix}
        names = {"query": self.query_prompt_name, "document": self.document_prompt_name}
        found: dict[str, Mapping[str, str]] = {}
        for purpose, own_prefix in own.items():
            prefix = prefixes.get(purpose) if own_prefix is None else own_prefix
            fields = {"prefix": prefix, "prompt_name": names[purpose], "input_type": types.get(purpose)}
            if given := {field: value for field, value in fields.items() if value}:
                found[purpose] = given
        return found

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.prompts != "none" and None not in (self.query_prefix, self.document_prefix):
            yield "prompts: no effect with query_prefix and document_prefix; remove it, or one of these"


_PREFIXES: Final[Mapping[str, Mapping[str, str]]] = {
    "none": {},
    "e5": {"query": "query: ", "document": "passage: "},
    "nomic": {"query": "search_query: ", "document": "search_document: "},
    "embeddinggemma": {"query": "task: search result | query: ", "document": "title: none | text: "},
    "qwen3": {"query": "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"},
    "bge": {"query": "Represent this sentence for searching relevant passages: "},
}
"""By model family and purpose."""

_INPUT_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "cohere": {"query": "search_query", "document": "search_document"},
    "voyage": {"query": "query", "document": "document"},
    "nim": {"query": "query", "document": "passage"},
}
"""By kind and purpose."""


class SparseEncoderSettings(ModelServer):
    """The sparse encoder: a model such as SPLADE or BGE-M3 behind a server, for the leg learned; or none."""

    kind: Point[Literal["tei", "openai", "none"]] = "none"
    """tei: /embed_sparse of text-embeddings-inference; openai: /embeddings of SGLang or Xinference, with objects of
    tokens and weights."""
    url: Url | None = Field(default=None, description="Address of the server, without the kind's path.")
    model: Point[str] = ""
    """Model name; sent to servers of kind openai, recorded in results. All kinds need it."""
    timeout: Seconds = Field(default=2.0, description="Seconds to encode a query, its wait in the replica included.")
    max_batch: Count = Field(default=32, description="Texts in one request.")
    max_concurrency: Concurrency = 8
    cache_mib: Amount = 64
    """MiB of encoded queries to cache, by namespace and text; 0: no cache."""

    servers: ClassVar = ("tei", "openai")
    needs: ClassVar = ("url", "model")


_Hosted = Literal["cohere", "jina", "voyage", "mixedbread", "dashscope"]
_Server = Literal["nim", "tei", "tei_predict", "vllm", "vllm_score", "sglang"]
_SmallServer = Literal["infinity", "llama_server", "xinference", "localai"]
"""Rerankers behind an API: of services, of servers for many users, and of servers for a few."""

_OF_PAIRS: Final = ("tei_predict", "vllm_score")
"""Rerankers whose calls are pairs, of any number of queries."""


class RerankSettings(ModelServer):
    """The reranker."""

    kind: Answer[Literal["late_interaction", "onnx", _Hosted, _Server, _SmallServer, "chat", "none"]] = Field(
        default="late_interaction", description="Reranker; docs/reference/reranking.md compares them."
    )
    url: Url | None = None
    """Address of the server, without the kind's path."""
    path: Answer[Path | None] = Field(default=None, description="For onnx: directory of the exported model.")
    file: Newer[Answer[str | None]] = None
    """For onnx: the graph's file in the directory or its folder onnx; null: by `precision`."""
    precision: Newer[Answer[Literal["auto", "int8", "float32"]]] = "auto"
    """For onnx: int8: a file of 8 bits for the processor, or model.onnx, quantised once; float32: model.onnx; auto: a
    file of 8 bits if there is one and the processor has instructions for it, else model.onnx."""
    model: Answer[str] = Field(default="", description="Model name that the server is asked for.")
    mode: Answer[Literal["order", "pick"]] = "order"
    """For chat: order all relevant candidates, or pick one and put it first."""
    idf: Answer[bool] = Field(default=True, description="For late_interaction: rare tokens of a query weigh more.")
    on_the_fly: Answer[bool] = False
    """For late_interaction: compute the token vectors that the index lacks, within the query's time. Set it if few
    documents bring own vectors."""
    timeout: Seconds = Field(default=2.0, description="Seconds to rerank, its wait included; for chat: chat.timeout.")
    max_batch: Count | None = None
    """Documents in a call; for late_interaction, queries. null: late_interaction 16, onnx 256, tei and tei_predict 32,
    vllm_score and nim 512, dashscope 500, other servers 1000. Not for chat."""
    max_concurrency: Concurrency | None = None
    """Calls in flight; 0 or less: no bound; null: onnx 1, vllm_score 2, others 16."""
    max_doc_chars: Answer[Amount] = Field(default=0, description="Code points read of a document; 0: all.")
    max_batch_chars: Answer[Amount] = 0
    """Code points of query and documents in a call; 0: no bound. Stay in the context."""
    trusted: bool = False
    """For vllm_score and tei_predict: one call may mix documents of several namespaces."""
    omitted: Newer[Answer[Literal["keep", "drop"]]] = "keep"
    """Documents that an answer leaves out. keep: a fault of the server, they follow behind the others; drop: they are
    irrelevant."""
    prompts: Answer[Literal["none", "qwen3"]] = "none"
    """Templates for servers that send texts to the model as they are: Qwen3-Reranker on vLLM."""
    instruction: Answer[Annotated[str, StringConstraints(max_length=4096)] | None] = None
    """Task for models that read one: in the query's template, or a field of the request (sglang, dashscope)."""
    query_template: Answer[str | None] = None
    """Text for a query, with {query} and, if set, {instruction}; null: that of `prompts`."""
    document_template: Answer[str | None] = None
    """Text for a document, with {document}; null: that of `prompts`."""
    body: Newer[Answer[Body]] = Field(default={})
    cache: Amount = 50_000
    """Scores of rerankers and chat models to cache, by query and texts; 0: none."""

    servers: ClassVar = get_args(Literal[_Hosted, _Server, _SmallServer])
    used_by: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **dict.fromkeys(("path", "file", "precision"), ("onnx",)),
        "mode": ("chat",),
        **dict.fromkeys(("idf", "on_the_fly"), ("late_interaction",)),
        **dict.fromkeys(("timeout", "max_batch", "max_concurrency"), ("late_interaction", "onnx", *servers)),
        **dict.fromkeys(("model", "max_batch_chars", "prompts", "query_template", "document_template"), servers),
        "instruction": servers,
        # An answer of these has all scores, or is a fault.
        "omitted": tuple(kind for kind in servers if kind not in _OF_PAIRS),
        "trusted": _OF_PAIRS,
        # The choices of a chat model are cached, too, whatever reranks.
        "cache": ("late_interaction", "onnx", *servers, "chat", "none"),
    }

    @property
    def documents(self) -> int:
        """The number of documents in a call; for late interaction, of queries."""
        return self.max_batch if self.max_batch is not None else _DOCUMENTS.get(self.kind, 1000)

    @property
    def calls(self) -> int:
        """The greatest number of calls in flight; 0 or less is no bound."""
        return self.max_concurrency if self.max_concurrency is not None else _CALLS.get(self.kind, 16)

    @property
    def templates(self) -> tuple[str, str] | None:
        """The templates of queries and documents, with the instruction in its place; None without any."""
        query, document = _TEMPLATES[self.prompts]
        query, document = self.query_template or query, self.document_template or document
        if (query, document) == _TEMPLATES["none"]:
            return None
        return query.replace("{instruction}", self.instruction or _INSTRUCTION), document

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.kind == "onnx" and self.path is None:
            yield "onnx needs path"
        if self.kind == "onnx" and self.calls != 1:
            yield "onnx: the model in this process makes one call at a time (max_concurrency: 1)"
        if self.kind == "late_interaction" and self.max_doc_chars and not self.on_the_fly:
            yield "max_doc_chars: late_interaction reads texts with on_the_fly alone; remove it, or set on_the_fly"
        if self.served:
            yield from self._find_wrong_templates()

    def _find_wrong_templates(self) -> Iterator[str]:
        for template, name in zip(self.templates or (), ("query", "document"), strict=False):
            if f"{{{name}}}" not in template:
                yield f"{name}_template: {{{name}}} is missing"
        if self.prompts != "none" and self.query_template and self.document_template:
            yield "prompts: no effect with query_template and document_template; remove it, or one of these"
        read = "{instruction}" in (self.query_template or _TEMPLATES[self.prompts][0])
        if self.instruction is not None and not read and self.kind not in _INSTRUCTED:
            yield f"{self.kind} has no field for an instruction: set query_template, with {{instruction}}"


_INSTRUCTED: Final = frozenset({"sglang", "dashscope"})
_INSTRUCTION: Final = "Given a web search query, retrieve relevant passages that answer the query"
"""The default of the model family qwen3."""

_TEMPLATES: Final[Mapping[str, tuple[str, str]]] = {
    "none": ("{query}", "{document}"),
    "qwen3": (
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct"
        ' provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
        "<Instruct>: {instruction}\n<Query>: {query}\n",
        "<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
}
"""Of queries and of documents, by model family."""

_DOCUMENTS: Final[Mapping[str, int]] = {
    # The event loop serialises the token vectors: a larger call would delay everything else on it.
    "late_interaction": 16,
    # A call is answered as a whole: urgent queries wait for a larger one, and a smaller one wastes more on padding.
    "onnx": 256,
    # TEI's default for its option max-client-batch-size.
    "tei": 32,
    "tei_predict": 32,
    "vllm_score": 512,
    # The most that they take.
    "nim": 512,
    "dashscope": 500,
}
_CALLS: Final[Mapping[str, int]] = {
    "onnx": 1,
    # The second call waits at the server while the first is computed; further requests are batched here meanwhile.
    "vllm_score": 2,
}


class ChatSettings(ModelServer):
    """The chat model: it reranks, or recipes ask it to read the time in a query or to pick the best result."""

    kind: Answer[Literal["openai", "openai_reasoning", "deepseek", "anthropic", "none"]] = "none"
    """openai: any server with /chat/completions; openai_reasoning: with max_completion_tokens, without temperature;
    deepseek: json_object in place of a JSON schema."""
    url: Url | None = Field(default=None, description="Address with the API's version, such as https://host/v1.")
    model: Answer[str] = Field(default="", description="Model name that the server is asked for.")
    max_tokens: Answer[Count] = 1024
    """Maximum tokens of an answer, including the model's thoughts; an answer that is cut off is rejected."""
    structured: Answer[Literal["none", "json_schema", "tool"]] = "json_schema"
    """json_schema: by a JSON schema; tool: by a tool that the model must call; none: the prompt alone asks for JSON."""
    parameters: Answer[JsonObject] = Field(default={})
    """Parameters of each request, such as top_p or reasoning_effort; null leaves one out: {temperature: null}."""
    body: Newer[Answer[Body]] = Field(default={})
    timeout: Seconds = Field(default=5.0, description="Seconds for a completion, its wait in the replica included.")
    max_concurrency: Concurrency = Field(default=16, description="Completions in flight, for each stage that asks.")

    servers: ClassVar = ("openai", "openai_reasoning", "deepseek", "anthropic")
    needs: ClassVar = ("url", "model")

    @field_validator("parameters")
    @classmethod
    def _sets_parameters(cls, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if set_elsewhere := sorted(_NO_PARAMETERS & parameters.keys()):
            raise ValueError(f"{', '.join(set_elsewhere)}: no parameters that can be set here")
        return parameters


_NO_PARAMETERS: Final = frozenset({"model", "messages", "system", "stream", "max_tokens"})
"""Set by other keys, or by no one."""
