"""The message about a wrong configuration: the key or the variable, and what is expected, all at once."""

from pathlib import Path

import pytest

from schemas.settings import load
from tests.schemas.settings.refused import check_refusal, rows

REFUSED = r"""
# The path, and what is expected there: the name that was likely meant, or all that there are.
cach: {}
    cach: no such key; did you mean cache?
kafka: {bootstrap_server: b:1}
    kafka.bootstrap_server: no such key; did you mean bootstrap_servers?
kafka: {topics: {query: a}}
    kafka.topics.query: no such key; did you mean queries?
profiles: {mine: {over_sampl: 3}}
    profiles.mine.over_sampl: no such key; did you mean over_sample?
cursor: {zzz: 1}
    cursor.zzz: no such key; there are signing_secret, signing_secret_file
qdrant: {}
    qdrant: set one of url and path
kafka: {client: c}
    kafka.client: Input should be 'librdkafka' or 'kafka-python'
kafka: {partitions: many}
    kafka.partitions: Input should be a valid integer, unable to parse string as an integer
kafka: null
    kafka: a mapping is expected
limits: {timeout: -1}
    limits.timeout: Input should be greater than 0
delivery: {max_in_flight: 5000}
    delivery.max_in_flight: Input should be less than or equal to 1024
rerank: {on_the_fly: perhaps}
    rerank.on_the_fly: Input should be a valid boolean, unable to interpret input
qdrant: {url: http://q, bm25: {language: germn}}
    qdrant.bm25.language: no such language; did you mean german?
qdrant: {url: http://q, bm25: {language: english.}}
    qdrant.bm25.language: no such language; did you mean english?
qdrant: {url: http://q, bm25: {languages: {de: geman}}}
    qdrant.bm25.languages.de: no such language; did you mean german?
qdrant: {url: http://q, analysers: {documents: {language: porguese}}}
    qdrant.analysers.documents.language: no such language; did you mean portuguese?
qdrant: {url: http://q, bm25: {language: klingon}}
    qdrant.bm25.language: no such language; there are arabic, azerbaijani, …
qdrant: {url: http://q, bm25: {languages: {de-at: english, de_AT: german}}}
    qdrant.bm25.languages: two of the names are one language, such as de_AT and de-at

# All problems at once, of the file and of the environment.
colour: blue
embedder: {kind: tei}
kafka: {topics: {queries: no spaces}}
limits: {timeout: -1}
qdrant: {url: not a url, dimension: 0, vectors: {dence: x}}
rerank: {timeout: -2, top: many}
    kafka.topics.queries: String should match pattern '^[A-Za-z0-9._-]{1,249}$'
    qdrant.url: a URL http(s)://host[:port][/path] is expected, without user, password and query
    qdrant.dimension: Input should be greater than or equal to 1
    qdrant.vectors.dence: no such key; did you mean dense?
    embedder: tei needs url
    rerank.timeout: Input should be greater than 0
    rerank.top: no such key; there are api_key, api_key_file, …
    limits.timeout: Input should be greater than 0
    colour: no such key; there are cache, cache_dir, chat, …
RANKSTREAM_KAFFKA__CLIENT=kafka-python
cach: {}
kafka: {client: c}
qdrant: {url: http://q, api_key: canary}
    qdrant.api_key: secrets come from the environment or from a file (..._file), not from YAML
    RANKSTREAM_KAFFKA__CLIENT: no such setting; did you mean RANKSTREAM_KAFKA__CLIENT?
    kafka.client: Input should be 'librdkafka' or 'kafka-python'
    cach: no such key; did you mean cache?
kafka: {security_protocol: SASL_SSL, tls: {key_file: /k}, sasl: {mechanism: PLAIN}}
    kafka.tls: certificate_file and key_file need each other
    kafka.sasl: PLAIN needs username and password or password_file

# A variable is named as it was set, with the path in its JSON; what one would have set is not said to be missing.
RANKSTREAM_KAFKA__BOOTSTRAP=b
    RANKSTREAM_KAFKA__BOOTSTRAP: no such key; did you mean bootstrap_servers?
RANKSTREAM_KAFKA__PARTITIONS=x
    RANKSTREAM_KAFKA__PARTITIONS: Input should be a valid integer, unable to parse string as an integer
RANKSTREAM_KAFKA__TOPICS__REPLY_TO=a,b
    RANKSTREAM_KAFKA__TOPICS__REPLY_TO: JSON is expected, such as ["a", "b"]
RANKSTREAM_FIREWALL__BLOCKED_LABELS=draft
    RANKSTREAM_FIREWALL__BLOCKED_LABELS: JSON is expected, such as ["a", "b"]
RANKSTREAM_COLOUR=blue
    RANKSTREAM_COLOUR: no such setting
RANKSTREAM_KAFKA=b:1
    RANKSTREAM_KAFKA: a section is set by a JSON object, or its keys one by one: RANKSTREAM_KAFKA__...
RANKSTREAM_KAFKA={"client": "c"}
    RANKSTREAM_KAFKA: client: Input should be 'librdkafka' or 'kafka-python'
RANKSTREAM_QDRANT={"vectors": {"dence": "x"}}
    RANKSTREAM_QDRANT: vectors.dence: no such key; did you mean dense?
RANKSTREAM_KAFKA__TOPICS__REPLY_TO=["a", "b c"]
    RANKSTREAM_KAFKA__TOPICS__REPLY_TO: 1: String should match pattern '^[A-Za-z0-9._*?-]{1,249}$'
RANKSTREAM_RECIPES={"mine": {"stages": ["rrff"]}}
    RANKSTREAM_RECIPES: mine.stages.0: no such stage; did you mean rrf?
RANKSTREAM_RECIPES={"mine": {"stages": [{"rrf": {"kk": 1}}]}}
    RANKSTREAM_RECIPES: mine.rrf.kk: no such key; did you mean k?
RANKSTREAM_QDRANT=http://elsewhere
RANKSTREAM_KAFKA__CLIENT=c
    RANKSTREAM_QDRANT: a section is set by a JSON object, or its keys one by one: RANKSTREAM_QDRANT__...
    RANKSTREAM_KAFKA__CLIENT: Input should be 'librdkafka' or 'kafka-python'
RANKSTREAM_RERANK__MAX_BATCH=canary
    RANKSTREAM_RERANK__MAX_BATCH: Input should be a valid integer, unable to parse string as an integer

# Sections that do not fit together, names that another section lacks, and values out of range.
qdrant: {url: http://q, path: /x}
    qdrant: set one of url and path, not both
embedder: {kind: openai}
    embedder: openai needs url
qdrant: {url: http://q, collections: {moon: {a: b}}}
    qdrant.collections: moon: not in qdrant.destinations
qdrant: {url: http://q, collections: {default: {a: documents}}}
    qdrant: collections: default: two parts in one Qdrant collection
qdrant: {url: http://q, collections: {default: {a: b, c: b}}}
    qdrant: collections: default: two parts in one Qdrant collection
qdrant: {url: http://q, indexes: {_version: integer}}
    qdrant: indexes: _version: names that start with an underscore are the index's own
qdrant: {url: http://q, indexes: {year: text}}
    qdrant.indexes.year: Input should be 'keyword', 'integer', 'float', 'bool', 'datetime' or 'geo'
policies: {default: {deny: {profiles: [dep]}}}
    policies.default.deny.profiles: dep: not in profiles
profiles: {mine: {recipe: x}}
    profiles.mine.recipe: not in recipes
profiles: {mine: {group_by: x}}
    profiles.mine.group_by: nothing to group by; index it as keyword, integer or bool in qdrant.indexes
policies: {sources: {a: {destinations: [moon]}}}
    policies.sources.a.destinations: moon: not in qdrant.destinations
policies: {default: {reply_to: [results, queries]}}
    policies.default.reply_to: queries: neither kafka.topics.results nor one of kafka.topics.reply_to
policies: {identity: {by: topic, topics: {typo: a}}}
    policies.identity.topics: typo: not kafka.topics.queries
qdrant: {url: http://q, indexes: {subject: integer}}
    qdrant: indexes: subject: these have an index of their own
qdrant: {url: http://q, indexes: {my field: integer}}
    qdrant: indexes: my field: no filter can name this field
qdrant: {url: http://q, columns: {head: heading}}
    qdrant: columns: head: not one of search_fields
qdrant: {url: http://q, columns: {my head: title}}
    qdrant: columns: my head: a name is one word
qdrant: {url: http://q, columns: {Head: text, head: title}}
    qdrant: columns: two names differ in their case only
qdrant: {url: http://q, analysers: {moon: {}}}
    qdrant.analysers: moon: not a Qdrant collection of destinations or collections
sparse_encoder: {kind: tei, url: http://s}
    sparse_encoder: tei needs url and model
sparse_encoder: {kind: splade}
    sparse_encoder.kind: Input should be 'tei', 'openai' or 'none'
sparse_encoder: {body: {inputs: [a]}}
    sparse_encoder.body: inputs: a field that rankstream sets itself
sparse_encoder: {kind: tei, url: http://s, model: m}
    sparse_encoder.kind: tei needs a vector, and qdrant.vectors.learned is null
qdrant: {url: http://q, vectors: {learned: splade}}
    qdrant.vectors.learned: splade needs an encoder, and sparse_encoder.kind is none
qdrant: {url: http://q, owned: [moon]}
    qdrant.owned: moon: not a Qdrant collection of destinations or collections
qdrant: {url: http://q, ids: uuid, owned: [documents]}
    qdrant: owned: fields, ids, namespaces and vectors describe collections that are only read
qdrant: {url: http://q, fields: {_version: at}}
    qdrant: fields: _version: no name of a field
qdrant: {url: http://q, fields: {text: a..b}}
    qdrant: fields.text: a path such as metadata.tenant or _node_content#text is expected
qdrant: {url: http://q, fields: {text: a, title: a}}
    qdrant: fields: two names of one path
qdrant: {url: http://q, fields: {id: a}, ids: uuid}
    qdrant: fields.id: ids says that the point's id is the document's
qdrant: {url: http://q, fields: {namespace: a}, namespaces: none}
    qdrant: fields.namespace: namespaces says that there are none
qdrant: {url: http://q, fields: {labels: "a#b"}}
    qdrant: fields.labels: Qdrant cannot filter by what is in a string
decay: {collections: {default: {a: {}}}}
    decay.collections.default: a: not in qdrant.collections
cache: {threshold: 1.1}
    cache.threshold: Input should be less than or equal to 1
cache: {watermark_timeout: 11}
    cache.watermark_timeout: Input should be less than or equal to 10
kafka: {1: 2}
    kafka.1: Keys should be strings
kafka: {topics: {reply_to: [a, b, a]}}
    kafka.topics.reply_to: a topic is listed twice
kafka: {topics: {reply_to: [queries]}}
    kafka.topics.reply_to: lists the topic of queries, or has a pattern that fits it
kafka: {topics: {documents: x, reply_to: [x]}}
    kafka.topics.reply_to: lists the topic of documents, or has a pattern that fits it
kafka: {topics: {reply_to: [dead-letters, y], watermarks: y}}
    kafka.topics.reply_to: lists the topic of dead_letters, watermarks, or has a pattern that fits it
kafka: {topics: {reply_to: [a.*, d*s]}}
    kafka.topics.reply_to: lists the topic of documents, dead_letters, or has a pattern that fits it
kafka: {topics: {reply_to: [a.*]}}
policies: {default: {reply_to: [a.b.*, b.*]}}
    policies.default.reply_to: b.*: neither kafka.topics.results nor one of kafka.topics.reply_to
kafka: {topics: {reply_to: [no spaces]}}
    kafka.topics.reply_to.0: String should match pattern '^[A-Za-z0-9._*?-]{1,249}$'
kafka: {topics: {reply_to: answers}}
    kafka.topics.reply_to: Input should be a valid list
1: 2
    c.yaml: not a mapping of sections
- a
- b
    c.yaml: not a mapping of sections
just text
    c.yaml: not a mapping of sections
a: [
    c.yaml: not YAML at line 2
a: !!python/object:os.system {}
    c.yaml: tags aren't taken (line 1)

# Each vector has a name of its own; only the dense one may have none.
qdrant: {url: http://q, vectors: {sparse: dense}}
    qdrant.vectors: sparse: dense: another vector has this name
qdrant: {url: http://q, vectors: {tokens: bm25}}
    qdrant.vectors: tokens: bm25: another vector has this name
qdrant: {url: http://q, vectors: {dense_context: dense}}
    qdrant.vectors: dense_context: dense: another vector has this name
qdrant: {url: http://q, vectors: {sparse_context: dense_context}}
    qdrant.vectors: sparse_context: dense_context: another vector has this name
qdrant: {url: http://q, vectors: {fuzzy: bm25_context}}
    qdrant.vectors: fuzzy: bm25_context: another vector has this name
qdrant: {url: http://q, vectors: {learned: tokens}}
    qdrant.vectors: learned: tokens: another vector has this name
qdrant: {url: http://q, vectors: {learned: bm25}}
    qdrant.vectors: learned: bm25: another vector has this name
qdrant: {url: http://q, vectors: {sparse: ""}}
    qdrant.vectors: sparse: only a dense vector may have no name
qdrant: {url: http://q, vectors: {tokens: ""}}
    qdrant.vectors: tokens: only a dense vector may have no name
qdrant: {url: http://q, vectors: {learned: ""}}
    qdrant.vectors: learned: only a dense vector may have no name

# A setting without effect: without its kind, the address of a model would be left aside, and nothing would say so.
embedder: {url: http://model, model: m}
    embedder: url, model: no effect with kind minilm; remove, or set kind, which says what the server is
sparse_encoder: {url: http://model, model: m}
    sparse_encoder: url, model: no effect with kind none; remove, or set kind, which says what the server is
rerank: {url: http://model, model: m}
    rerank: url, model: no effect with kind late_interaction; remove, or set kind, which says what the server is
chat: {url: http://model, model: m}
    chat: url, model: no effect with kind none; remove, or set kind, which says what the server is
embedder: {model: intfloat/e5-small-v2}
    embedder: model: no effect with kind minilm; remove, or set kind, which says what the server is
embedder: {kind: minilm, max_batch: 8, headers: {x-a: b}, tls: {ca: /ca}}
    embedder: headers, tls: no effect with kind minilm; remove, or set kind, which says what the server is
rerank: {kind: chat, idf: false, timeout: 3}
chat: {kind: openai, url: http://c, model: m}
    rerank: idf: no effect with kind chat; remove, or set kind to late_interaction; timeout: no effect with kind chat; …
rerank: {kind: tei, url: http://r, trusted: true, mode: pick}
    rerank: mode: no effect with kind tei; remove, or set kind to chat; trusted: no effect with kind tei; remove, or …
rerank: {kind: vllm_score, url: http://r, omitted: drop}
    rerank: omitted: no effect with kind vllm_score; remove
rerank: {max_doc_chars: 300}
    rerank: max_doc_chars: late_interaction reads texts with on_the_fly alone; remove it, or set on_the_fly
rerank: {cache: 10}
    rerank.cache: no effect: late_interaction has no scores to cache, and there is no chat model; remove
rerank: {kind: chat, timeout: 3}
chat: {kind: openai, url: http://c, model: m}
    rerank: timeout: no effect with kind chat; remove
rerank: {kind: tei, url: http://r, prompts: qwen3, query_template: "{query}", document_template: "{document}"}
    rerank: prompts: no effect with query_template and document_template; remove it, or one of these
embedder: {kind: tei, url: http://e, prompts: e5, query_prefix: a, document_prefix: b}
    embedder: prompts: no effect with query_prefix and document_prefix; remove it, or one of these
embedder: {kind: tei, url: http://e, api_key_header: api-key}
    embedder: api_key_header: no effect without a key; remove it, or set api_key or api_key_file
chat: {max_tokens: 100}
    chat: max_tokens: no effect with kind none; remove, or set kind, which says what the server is
qdrant: {path: /x, headers: {x-a: b}, keep_alive: 2}
    qdrant: headers, keep_alive: no effect with path, which asks no server; remove, or set url in place of path
qdrant: {url: http://q, namespaces: none, create: {m: 32}}
    qdrant: create: m: no effect on collections that another tool makes; remove
qdrant: {url: http://q, namespaces: none}
documents: {envelope: debezium}
    documents: envelope: no effect on collections that are only read; remove
qdrant: {url: http://q, context: {before: 5}}
    qdrant.context: before: no effect without order_by; remove, or set order_by
qdrant: {url: http://q, vectors: {tokens: null, tokens_datatype: float16}}
    qdrant.vectors: tokens_datatype: no effect without tokens; remove, or name the vector of tokens
kafka: {schema_registry: {request_timeout: 2}}
    kafka.schema_registry: request_timeout: no effect without url; remove, or set it
kafka: {transaction_timeout: 20}
delivery: {mode: at_least_once}
    kafka.transaction_timeout: no effect with delivery.mode at_least_once; remove
limits: {timeout: 100}
    limits: timeout: no effect above max_timeout; lower it, or raise max_timeout
telemetry: {host: 127.0.0.1, port: null}
    telemetry: host: no effect without a port; remove, or set port
cache: {semantic_mib: 0, threshold: 0.9}
    cache: threshold: no effect without the semantic cache; remove, or raise semantic_mib
cache: {semantic_mib: 0, exact_mib: 0, ttl: 10}
    cache: ttl: no effect without caches; remove, or raise exact_mib or semantic_mib
firewall: {blocked_labels: [draft]}
    firewall: blocked_labels: no effect without the firewall; set firewall.enabled to true, or to false to have it off …
policies: {sources: {desk: {clearance: internal}}}
    policies.sources.desk: its clearance and labels hide nothing; set firewall.enabled to true, or to false …

# Models of embeddings: missing addresses, and prompts that nobody would put in.
embedder: {kind: openai, url: null}
    embedder: openai needs url
embedder: {kind: tei, url: null}
    embedder: tei needs url
embedder: {kind: cohere, url: null}
    embedder: cohere needs url
embedder: {kind: voyage, url: null}
    embedder: voyage needs url
embedder: {kind: nim, url: null}
    embedder: nim needs url
embedder: {kind: minilm, prompts: e5}
    embedder: prompts: no effect with kind minilm; remove, or set kind, which says what the server is
embedder: {kind: minilm, dimensions: 256}
    embedder: dimensions: no effect with kind minilm; remove, or set kind, which says what the server is
embedder: {kind: tei, url: http://e, precision: int8}
    embedder: precision: no effect with kind tei; remove, or set kind to minilm
embedder: {kind: openai, url: http://embedder/v1, query_prompt_name: web}
    embedder: query_prompt_name: no effect with kind openai; remove, or set kind to tei
embedder: {kind: tei, url: http://embedder/v1, prompts: gpt}
    embedder.prompts: Input should be 'none', 'e5', 'nomic', 'embeddinggemma', 'qwen3' or 'bge'
embedder: {kind: tei, url: http://embedder/v1, dimensions: 0}
    embedder.dimensions: Input should be greater than or equal to 1

# Rerankers: kinds and bounds that do not go together. Without token vectors every answer would be unranked.
rerank: {kind: onnx, path: /m, max_concurrency: -1}
    rerank: onnx: the model in this process makes one call at a time (max_concurrency: 1)
rerank: {kind: onnx, path: /m, max_concurrency: 0}
    rerank: onnx: the model in this process makes one call at a time (max_concurrency: 1)
rerank: {kind: onnx, path: /m, max_concurrency: 2}
    rerank: onnx: the model in this process makes one call at a time (max_concurrency: 1)
rerank: {kind: onnx, path: /m, max_concurrency: 16}
    rerank: onnx: the model in this process makes one call at a time (max_concurrency: 1)
rerank: {kind: chat}
    rerank.kind: chat asks a chat model, and chat.kind is none
rerank: {kind: chat}
chat: {kind: openai}
    chat: openai needs url and model
rerank: {kind: nobody}
    rerank.kind: Input should be 'late_interaction', 'onnx', 'cohere', …
rerank: {mode: best}
    rerank.mode: Input should be 'order' or 'pick'
rerank: {kind: tei, url: reranker:80}
    rerank.url: a URL http(s)://host[:port][/path] is expected, without user, password and query
rerank: {top: 50}
    rerank.top: no such key; there are api_key, api_key_file, …
rerank: {prompts: qwen3}
    rerank: prompts: no effect with kind late_interaction; remove, or set kind, which says what the server is
rerank: {precision: int8}
    rerank: precision: no effect with kind late_interaction; remove, or set kind to onnx
rerank: {kind: tei, url: http://r, file: a.onnx}
    rerank: file: no effect with kind tei; remove, or set kind to onnx
rerank: {kind: onnx, path: /m, precision: int4}
    rerank.precision: Input should be 'auto', 'int8' or 'float32'
rerank: {kind: onnx, path: /m, query_template: "q: {query}"}
    rerank: query_template: no effect with kind onnx; remove, or set kind, which says what the server is
rerank: {kind: tei, url: http://r, query_template: q}
    rerank: query_template: {query} is missing
rerank: {kind: tei, url: http://r, document_template: "{query}"}
    rerank: document_template: {document} is missing
rerank: {kind: tei, url: http://r, instruction: find bugs}
    rerank: tei has no field for an instruction: set query_template, with {instruction}
rerank: {timeout: 0}
    rerank.timeout: Input should be greater than 0
rerank: {timeout: -1}
    rerank.timeout: Input should be greater than 0
rerank: {timeout: 3601}
    rerank.timeout: Input should be less than or equal to 3600
rerank: {max_batch: 0}
    rerank.max_batch: Input should be greater than or equal to 1
rerank: {max_batch: -1}
    rerank.max_batch: Input should be greater than or equal to 1
rerank: {max_concurrency: 1000001}
    rerank.max_concurrency: Input should be less than or equal to 1000000
rerank: {max_concurrency: many}
    rerank.max_concurrency: Input should be a valid integer, unable to parse string as an integer
rerank: {max_doc_chars: -1}
    rerank.max_doc_chars: Input should be greater than or equal to 0
rerank: {max_batch_chars: -1}
    rerank.max_batch_chars: Input should be greater than or equal to 0
rerank: {cache: -1}
    rerank.cache: Input should be greater than or equal to 0
rerank: {trusted: perhaps}
    rerank.trusted: Input should be a valid boolean, unable to interpret input
rerank: {idf: 2}
    rerank.idf: Input should be a valid boolean, unable to interpret input
embedder: {kind: openai, url: http://e}
    rerank.kind: late_interaction reads token vectors, and embedder.kind openai gives none; …
embedder: {kind: tei, url: http://e}
    rerank.kind: late_interaction reads token vectors, and embedder.kind tei gives none; …

# Parameters of a chat model are any but those that another key sets, or the prompt is.
chat: {kind: openai, url: http://chat/v1, model: m, parameters: {model: 1}}
    chat.parameters: model: no parameters that can be set here
chat: {kind: openai, url: http://chat/v1, model: m, parameters: {messages: 1}}
    chat.parameters: messages: no parameters that can be set here
chat: {kind: openai, url: http://chat/v1, model: m, parameters: {system: 1}}
    chat.parameters: system: no parameters that can be set here
chat: {kind: openai, url: http://chat/v1, model: m, parameters: {stream: 1}}
    chat.parameters: stream: no parameters that can be set here
chat: {kind: openai, url: http://chat/v1, model: m, parameters: {max_tokens: 1}}
    chat.parameters: max_tokens: no parameters that can be set here
chat: {kind: openai, url: http://chat/v1, model: m, parameters: {top_p: .nan}}
    chat.parameters: the values must be JSON, with finite numbers and integers of 64 bits
chat: {kind: openai, url: http://c, model: m, parameters: {logit_bias: {50256: -100}}}
    chat.parameters.logit_bias.dict.50256.[key]: Input should be a valid string
"""


@pytest.mark.parametrize(("configuration", "message"), rows(REFUSED))
def test_every_problem_is_a_line_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configuration: list[str], message: list[str]
) -> None:
    """It names the path or the variable, and what is expected there; no value is repeated."""
    monkeypatch.chdir(tmp_path)
    check_refusal(monkeypatch, configuration, message)


@pytest.mark.parametrize(
    "variable",
    [
        "RANKSTREAM_SERVICE_HOST",
        "RANKSTREAM_SERVICE_PORT_HEALTH",
        "RANKSTREAM_PORT",
        "RANKSTREAM_PORT_8080_TCP",
        "RANKSTREAM_PORT_8080_TCP_ADDR",
        "RANKSTREAM_SEARCH_SERVICE_PORT",
        "RANKSTREAM_SEARCH_PORT_8080_TCP_PROTO",
    ],
)
def test_what_kubernetes_sets_for_a_service_is_no_setting(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """A Service called rankstream, or rankstream-search, doesn't keep its pods from starting."""
    monkeypatch.setenv(variable, "tcp://10.0.0.1:8080")
    assert load(None, {"qdrant": {"url": "http://q"}}).telemetry.port == 8080
