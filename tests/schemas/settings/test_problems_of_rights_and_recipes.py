"""The message about wrong settings of security, policies, profiles, recipes, decay and overrides."""

from pathlib import Path

import pytest

from tests.schemas.settings.refused import check_refusal, rows

REFUSED = r"""
# TLS and SASL: a setting that is missing, half, double or of no use.
kafka: {security_protocol: TLS}
    kafka.security_protocol: Input should be 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL'
kafka: {security_protocol: PLAINTEXT, sasl: {mechanism: SCRAM-SHA-512, username: u, password_file: /p}}
    kafka: sasl: no effect with security_protocol PLAINTEXT; remove, or set it to SASL_PLAINTEXT or SASL_SSL
kafka: {security_protocol: SSL, sasl: {mechanism: SCRAM-SHA-512, username: u, password_file: /p}}
    kafka: sasl: no effect with security_protocol SSL; remove, or set it to SASL_PLAINTEXT or SASL_SSL
kafka: {security_protocol: PLAINTEXT, tls: {ca_file: /ca}}
    kafka: tls: no effect with security_protocol PLAINTEXT; remove, or set it to SSL or SASL_SSL
kafka: {security_protocol: SASL_PLAINTEXT,
  sasl: {mechanism: SCRAM-SHA-512, username: u, password_file: /p}, tls: {check_hostname: false}}
    kafka: tls: no effect with security_protocol SASL_PLAINTEXT; remove, or set it to SSL or SASL_SSL
kafka: {security_protocol: SASL_SSL}
    kafka: security_protocol SASL_SSL needs sasl.mechanism
kafka: {security_protocol: SSL, tls: {certificate_file: /c}}
    kafka.tls: certificate_file and key_file need each other
kafka: {security_protocol: SSL, tls: {key_file: /k}}
    kafka.tls: certificate_file and key_file need each other
kafka: {security_protocol: SSL, tls: {key_password_file: /p}}
    kafka.tls: key_password needs key_file
kafka: {security_protocol: SASL_SSL, sasl: {username: u}}
    kafka.sasl: username: no effect without mechanism; remove, or set it
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: GSSAPI}}
    kafka.sasl.mechanism: Input should be 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512' or 'OAUTHBEARER'
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: PLAIN}}
    kafka.sasl: PLAIN needs username and password or password_file
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: SCRAM-SHA-512, username: null, password_file: /p}}
    kafka.sasl: SCRAM-SHA-512 needs username
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: SCRAM-SHA-512, username: u, password_file: /p, token_file: /t}}
    kafka.sasl: token_file: no effect with SCRAM-SHA-512; remove
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, token_file: /t, username: u}}
    kafka.sasl: username: no effect with OAUTHBEARER; remove
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER}}
    kafka.sasl: OAUTHBEARER needs one of token_file, token_url, aws_region
kafka: {security_protocol: SASL_SSL,
  sasl: {mechanism: OAUTHBEARER, token_url: https://i/token, client_id: c, client_secret_file: /s, token_file: /t}}
    kafka.sasl: OAUTHBEARER needs one of token_file, token_url, aws_region
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, token_file: /t, aws_region: eu-central-1}}
    kafka.sasl: OAUTHBEARER needs one of token_file, token_url, aws_region
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, token_file: /t, aws_region: Frankfurt}}
    kafka.sasl.aws_region: String should match pattern '^[a-z]+(-[a-z0-9]+)+$'
kafka: {security_protocol: SASL_SSL,
  sasl: {mechanism: SCRAM-SHA-512, username: u, password_file: /p, extensions: {a: b}}}
    kafka.sasl: extensions: no effect with SCRAM-SHA-512; remove
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, token_file: /t, extensions: {auth: b}}}
    kafka.sasl.extensions.auth.[key]: the token's own name
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, token_file: /t, extensions: {a_b: b}}}
    kafka.sasl.extensions.a_b.[key]: String should match pattern '^[A-Za-z]+$'
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, token_file: /t, extensions: {a: "b\u0001c=d"}}}
    kafka.sasl.extensions.a: String should match pattern '^[\x20-\x7e]+$'
kafka: {security_protocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, token_file: /t, scope: s}}
    kafka.sasl: scope: no effect with token_file; remove
kafka: {security_protocol: SASL_SSL,
  sasl: {mechanism: OAUTHBEARER, token_url: https://i/token, client_id: c, client_secret_file: null}}
    kafka.sasl: token_url needs client_secret or client_secret_file
kafka: {security_protocol: SASL_SSL,
  sasl: {mechanism: OAUTHBEARER, token_url: https://i/token, client_id: null, client_secret_file: /s}}
    kafka.sasl: token_url needs client_id
kafka: {security_protocol: SASL_SSL,
  sasl: {mechanism: OAUTHBEARER, token_url: i/token, client_id: c, client_secret_file: /s}}
    kafka.sasl.token_url: a URL http(s)://host[:port][/path][?query] is expected, without user and password
kafka: {bootstrap_servers: "a:1,user:canary@b:2"}
    kafka.bootstrap_servers: host:port of brokers is expected, such as localhost:9092: no scheme, no user, no path
RANKSTREAM_QDRANT__API_KEY=canary
qdrant: {url: http://q, api_key_file: /k}
    qdrant: api_key and api_key_file are both set

# A misspelt collection or operation would allow what was to be denied.
qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}
policies: {default: {deny: {collections: [secrt, open]}}}
    policies.default.deny.collections: secrt: not in qdrant.collections
qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}
policies: {default: {collections: [secret, a, b]}}
    policies.default.collections: a, b: not in qdrant.collections
qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}
policies: {sources: {web: {collections: [s]}}}
    policies.sources.web.collections: s: not in qdrant.collections
qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}
policies: {default: {deny: {operations: [Read]}}}
    policies.default.deny.operations: Read: no operation; there is read
qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}
policies: {default: {operations: [query]}}
    policies.default.operations: query: no operation; there is read
qdrant: {url: http://q, collections: {default: {secret: s, open: o}}}
policies: {sources: {web: {deny: {operations: [read, write]}}}}
    policies.sources.web.deny.operations: write: no operation; there is read
defaults: {destination: elswhere}
    defaults.destination: not in qdrant.destinations

# An identity has all that it needs, and nothing that it doesn't use; no mistake is a policy that allows all.
policies: {identity: {by: header}}
    policies.identity: by: header needs header
policies: {identity: {by: topic}}
    policies.identity: by: topic needs topics
policies: {identity: {by: event, header: x-source}}
    policies.identity: header: no effect with by: event; remove, or set by to header
policies: {identity: {topics: {q: web}}}
    policies.identity: topics: no effect with by: event; remove, or set by to topic
policies: {identity: {by: topic, topics: {q: web}, header: h}}
    policies.identity: header: no effect with by: topic; remove, or set by to header
policies: {identity: {by: header, topics: {q: web}}}
    policies.identity: by: header needs header; topics: no effect with by: header; remove, or set by to topic
policies: {identity: {by: header, header: ""}}
    policies.identity.header: String should have at least 1 character
policies: {identity: {by: cookie}}
    policies.identity.by: Input should be 'event', 'header' or 'topic'
policies: {default: {overrides: {score.beta: {}}}}
    policies.default.overrides.score.beta.[key]: not STAGE.PARAMETER of a recipe
policies: {default: {destinations: a}}
    policies.default.destinations: Input should be a valid list
policies: {default: {namespace: [a]}}
    policies.default.namespace: no such key; did you mean namespaces?
policies: {default: {deny: {allowed_profiles: []}}}
    policies.default.deny.allowed_profiles: no such key; did you mean profiles?
firewall: {namespaces: {hr: secret}}
    firewall.namespaces.hr: Input should be 'public', 'internal', 'confidential' or 'restricted'

# Profiles, by the path and the bound.
profiles: {deep: {over_sample: 1001}}
    profiles.deep.over_sample: Input should be less than or equal to 1000
profiles: {deep: {over_sample: -1}}
    profiles.deep.over_sample: Input should be greater than or equal to 0
profiles: {deep: {rerank_top: 1001}}
    profiles.deep.rerank_top: Input should be less than or equal to 1000
profiles: {deep: {rerank_top: -1}}
    profiles.deep.rerank_top: Input should be greater than or equal to 0
profiles: {deep: {half_life_days: 0}}
    profiles.deep.half_life_days: Input should be greater than 0
profiles: {deep: {half_life_days: 2e6}}
    profiles.deep.half_life_days: Input should be less than or equal to 1000000
profiles: {deep: {half_life_days: .nan}}
    profiles.deep.half_life_days: Input should be a finite number
profiles: {deep: {caches: [disk]}}
    profiles.deep.caches.0: Input should be 'exact' or 'semantic'
profiles: {deep: {oversample: 5}}
    profiles.deep.oversample: no such key; did you mean over_sample?
profiles: {deep: {semantic: maybe}}
    profiles.deep.semantic: Input should be a valid boolean, unable to interpret input
profiles: {deep: 5}
    profiles.deep: a mapping is expected
profiles: {deep: null}
    profiles.deep: a mapping is expected
profiles: {balanced: {recipe: nope}}
    profiles.balanced.recipe: not in recipes

# Recipes, stages by their place, in every recipe at once.
recipes:
  mine: {stages: [rff, {dedupe: {limits: 3}}, 7], max_distence: 1}
  legs: {stages: [{score: {weights: {vectr: 2, keywrod: 1}}}]}
  2024: {stages: [rrf]}
    recipes.mine.max_distence: no such key; did you mean max_distance?
    recipes.mine.stages.0: no such stage; did you mean rrf?
    recipes.mine.stages.2: a stage is its name, or its name with its parameters
    recipes.mine.dedupe.limits: no such key; did you mean limit?
    recipes.legs.score.weights.vectr: no such leg; did you mean vector?
    recipes.legs.score.weights.keywrod: no such leg; did you mean keyword?
    recipes.2024: a text is expected as name
recipes: {mine: {stages: [{rrf: {weights: {keyword: 0, learned: 0, vector: 0}}}]}}
    recipes.mine.rrf.weights: no leg has a weight above 0
recipes: {mine: {stages: [{score: {weights: {keyword: 0, learned: 0, vector: 0}}}]}}
    recipes.mine.score.weights: no leg has a weight above 0
recipes: {mine: {stages: [{dbsf: {weights: {keyword: 0, learned: 0, vector: 0}}}]}}
    recipes.mine.dbsf.weights: no leg has a weight above 0
recipes: {good: {stages: [rrf]}, mine: {stages: [{score: {alpha: 2}}]}}
    recipes.mine.score.alpha: Input should be less than or equal to 1
recipes: {good: {stages: [rrf]}, mine: {stages: [score, {dedupe: {limits: 3}}]}}
    recipes.mine.dedupe.limits: no such key; did you mean limit?
recipes: {good: {stages: [rrf]}, mine: {stages: [score, rrf]}}
    recipes.mine.stages.1: only the first may be a fusion
recipes: {good: {stages: [rrf]}, mine: {stages: [nope]}}
    recipes.mine.stages.0: no such stage; there are rrf, score, linear, …
recipes: {good: {stages: [rrf]}, mine: {stages: []}}
    recipes.mine.stages: a list of 1 to 32 stages is expected
recipes: {good: {stages: [rrf]}, mine: {stages: [score], max_distance: -1}}
    recipes.mine.max_distance: a number from 0 to 1000000 is expected
recipes: {good: {stages: [rrf]}, mine: [score]}
    recipes.mine: a mapping with `stages` is expected
recipes: {first: {stages: [{score: {alpha: 2}}]}, second: {stages: [{score: {alpha: 2}}]}}
threads: 0
    recipes.first.score.alpha: Input should be less than or equal to 1
    recipes.second.score.alpha: Input should be less than or equal to 1
    threads: Input should be greater than or equal to 1
recipes: {read: {stages: [rrf, {temporal: {extractor: chat}}]}}
    recipes: read ask a chat model, and chat.kind is none
recipes: {told: {stages: [score, {temporal: {extractor: chat}}]}}
    recipes: told ask a chat model, and chat.kind is none
recipes:
  read: {stages: [rrf, {temporal: {extractor: chat}}]}
  told: {stages: [score, {temporal: {extractor: chat}}]}
    recipes: read, told ask a chat model, and chat.kind is none

# No value is repeated.
recipes: {mine: {stages: [{score: {normaliser: canary}}]}}
    recipes.mine.score.normaliser: Input should be 'min_max', 'theoretical', 'credited', 'z_score' or 'l2'
recipes: {mine: canary}
    recipes.mine: a mapping with `stages` is expected
recipes: {mine: {stages: [canary]}}
    recipes.mine.stages.0: no such stage; did you mean near?
profiles: {balanced: {recipe: canary}}
    profiles.balanced.recipe: not in recipes
profiles: {balanced: canary}
    profiles.balanced: a mapping is expected
limits: {overrides: {score.alpha: {min: canary}}}
    limits.overrides.score.alpha.min: Input should be a valid number, unable to parse string as a number
decay: {destinations: {default: {mode: canary}}}
    decay.destinations.default.mode: Input should be 'exponential' or 'step'

# Tiers of decay, and bounds on overrides of parameters that there are.
decay: {destinations: {dairy: {half_life_days: 3.0}, default: {}}}
    decay.destinations: dairy: not in qdrant.destinations
decay: {destinations: {default: {half_life_days: -1}}}
    decay.destinations.default.half_life_days: Input should be greater than or equal to 0
decay: {destinations: {default: {mode: linear}}}
    decay.destinations.default.mode: Input should be 'exponential' or 'step'
decay: {destinations: {default: {halflife: 1}}}
    decay.destinations.default.halflife: no such key; did you mean half_life_days?
limits: {overrides: {score.alpha: {least: 0}}}
    limits.overrides.score.alpha.least: no such key; there are max, min
limits: {overrides: {score.alfa: {}}}
    limits.overrides.score.alfa.[key]: not STAGE.PARAMETER of a recipe
limits: {overrides: {scores.alpha: {}}}
    limits.overrides.scores.alpha.[key]: not STAGE.PARAMETER of a recipe
limits: {overrides: {alpha: {}}}
    limits.overrides.alpha.[key]: not STAGE.PARAMETER of a recipe
limits: {overrides: {score.alpha: {min: 0.8, max: 0.2}}}
    limits.overrides.score.alpha: min is above max

# Experiments with a topic and a recipe.
experiments: {words: {recipe: rrf}}
    experiments: there is no topic for what they find; set kafka.topics.experiments
kafka: {topics: {experiments: e}}
experiments: {words: {recipe: canary}}
    experiments.words.recipe: not in recipes
kafka: {topics: {experiments: e}}
recipes: {mine: {stages: [score, {llm_rerank: {enabled: true}}]}}
experiments: {words: {recipe: mine}}
    experiments.words.recipe: mine asks a chat model, which no experiment does; name another
experiments: {words: {recipe: rrf, until: {}}}
    experiments.words: until: no effect with mode shadow, which asks no user; remove, or set mode to interleave
experiments: {words: {recipe: rrf, share: 0}}
    experiments.words.share: Input should be greater than 0
experiments: {words: {recipe: rrf, share: 1.1}}
    experiments.words.share: Input should be less than or equal to 1
experiments: {words: {share: 1}}
    experiments.words.recipe: missing
experiments: {words: {recipe: rrf, namespaces: []}}
    experiments.words.namespaces: 1 values or more are expected
experiments: {"two words": {recipe: rrf}}
    experiments.two words.[key]: String should match pattern '^[A-Za-z0-9._-]{1,64}$'
kafka: {topics: {experiments: queries}}
    kafka.topics: queries and experiments: the same topic
kafka: {topics: {feedback: f, reply_to: [f]}}
    kafka.topics.reply_to: lists the topic of feedback, or has a pattern that fits it
"""


@pytest.mark.parametrize(("configuration", "message"), rows(REFUSED))
def test_what_goes_not_together_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configuration: list[str], message: list[str]
) -> None:
    """By its path, and with the bound or the names that there are; no value is repeated."""
    monkeypatch.chdir(tmp_path)
    check_refusal(monkeypatch, configuration, message)
