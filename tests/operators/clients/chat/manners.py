"""Chat servers' manners by name, and what comes of each: the one table of them.

Tests play each of them, and pages of the documentation may be made of it.
"""

from typing import Final

from tests.operators.clients.chat.playing import (
    ANSWER,
    STRUCTURED,
    THOUGHT,
    Manner,
    anthropic_refusal,
    anthropic_structured,
    blocks,
    if_holds,
    in_turn,
    openai_refusal,
    refusing,
    said,
    structured,
)

TEXT: Final = {"type": "text", "text": ANSWER}
THINKING: Final = {"type": "thinking", "thinking": THOUGHT, "signature": "EqQB"}
TEMPERATURE: Final = {"temperature": None}
LIMIT: Final = {"max_tokens": "max_completion_tokens"}

CALLED: Final = said(
    None, "tool_calls", tool_calls=[{"type": "function", "function": {"name": "ranking", "arguments": STRUCTURED}}]
)

MANNERS: Final[tuple[Manner, ...]] = (
    Manner(
        "OpenAI",
        "max_tokens refused",
        refusing(
            "max_tokens",
            openai_refusal(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
                " instead.",
                "max_tokens",
                "unsupported_parameter",
            ),
        ),
        calls=2,
        refused=LIMIT,
    ),
    Manner(
        "OpenAI",
        "max_tokens and temperature refused, one after the other",
        in_turn(
            if_holds("max_tokens", openai_refusal("Unsupported parameter.", "max_tokens", "unsupported_parameter")),
            if_holds(
                "temperature",
                openai_refusal("'temperature' does not support 0 with this model.", "temperature", "unsupported_value"),
            ),
            then=said(ANSWER),
        ),
        calls=3,
        refused={**LIMIT, **TEMPERATURE},
    ),
    Manner(
        "OpenAI",
        "all tokens spent on hidden thoughts",
        said("", "length"),
        "raise chat.max_tokens",
    ),
    Manner("OpenAI", "json_schema", structured, structured="json_schema"),
    Manner("OpenAI", "tool", structured, structured="tool"),
    Manner(
        "OpenAI",
        "json_schema refused by an older model",
        refusing(
            "response_format",
            openai_refusal(
                "Invalid parameter: 'response_format' of type 'json_schema' is not supported.", "response_format"
            ),
        ),
        calls=2,
        refused={"response_format": None},
        structured="json_schema",
    ),
    Manner(
        "Azure OpenAI",
        "max_tokens refused without param and code",
        refusing(
            "max_tokens", openai_refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        ),
        calls=2,
        refused=LIMIT,
    ),
    Manner("vLLM", "thoughts in reasoning", said(ANSWER, reasoning=THOUGHT)),
    Manner(
        "vLLM", "thoughts in reasoning_content, content null", said(None, reasoning_content=THOUGHT), "reasoning parser"
    ),
    Manner(
        "vLLM", "cut in reasoning_content", said(None, "length", reasoning_content=THOUGHT), "raise chat.max_tokens"
    ),
    Manner("vLLM", "no reasoning parser", said(f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}")),
    Manner("vLLM", "no reasoning parser, the template opens the thought", said(f"{THOUGHT}\n</think>\n\n{ANSWER}")),
    Manner("vLLM", "no reasoning parser, cut", said(f"<think>\n{THOUGHT}", "length"), "raise chat.max_tokens"),
    Manner(
        "vLLM",
        "tool choice auto refused after a forced tool",
        in_turn(
            if_holds("tool_choice", openai_refusal("A forced tool_choice is not supported with this parser.")),
            if_holds(
                "tools",
                openai_refusal(
                    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
                ),
            ),
            then=said(ANSWER),
        ),
        calls=3,
        refused={"tool_choice": None, "tools": None},
        structured="tool",
    ),
    Manner(
        "vLLM",
        "the prompt is over the context",
        lambda _: (400, openai_refusal("'max_tokens' is too large: 1024. The maximum context length is 900 tokens.")),
        "refused",
    ),
    Manner(
        "vLLM",
        "gpt-oss without its parser",
        said(
            f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>"
        ),
    ),
    Manner("vLLM", "gpt-oss without special tokens", said(f"analysisWe see. {THOUGHT}assistantfinal{ANSWER}")),
    Manner(
        "vLLM",
        "gpt-oss cut in the analysis",
        said(f"<|channel|>analysis<|message|>{THOUGHT}", "length"),
        "raise chat.max_tokens",
    ),
    Manner("SGLang", "separate reasoning", said(ANSWER, reasoning_content=THOUGHT)),
    Manner("SGLang", "Kimi without its parser", said(f"◁think▷{THOUGHT}◁/think▷{ANSWER}")),
    Manner("SGLang", "Seed-OSS without its parser", said(f"<seed:think>{THOUGHT}</seed:think>{ANSWER}")),
    Manner("llama-server", "reasoning format none", said(f"<think>{THOUGHT}</think>{ANSWER}")),
    Manner("llama-server", "reasoning format deepseek", said(ANSWER, reasoning_content=THOUGHT)),
    Manner("llama-server", "Gemma 4, thoughts in the text", said(f"<|channel>thought\n{THOUGHT}<channel|>{ANSWER}")),
    Manner(
        "llama-server",
        "tools without --jinja, status 500",
        refusing(
            "tools",
            {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}},
            status=500,
        ),
        calls=2,
        refused={"tools": None, "tool_choice": None},
        structured="tool",
    ),
    Manner("llama-server", "json_schema", structured, structured="json_schema"),
    Manner("Ollama", "thoughts in reasoning", said(ANSWER, reasoning=THOUGHT)),
    Manner("Ollama", "all tokens spent on thoughts", said("", "length", reasoning=THOUGHT), "raise chat.max_tokens"),
    Manner(
        "Ollama", "Granite's sentences", said(f"Here is my thought process:\n{THOUGHT}\nHere is my response:\n{ANSWER}")
    ),
    Manner("DeepSeek", "thoughts in reasoning_content", said(ANSWER, reasoning_content=THOUGHT)),
    Manner(
        "DeepSeek",
        "json_schema refused",
        refusing(
            "response_format",
            openai_refusal("This response_format type is unavailable now", None, "invalid_request_error"),
        ),
        calls=2,
        refused={"response_format": None},
        structured="json_schema",
    ),
    Manner(
        "DeepSeek",
        "json_schema refused with 422 in text",
        refusing(
            "response_format",
            "Failed to deserialize the JSON body: response_format: `json_schema` is unavailable now at line 1",
            status=422,
        ),
        calls=2,
        refused={"response_format": None},
        structured="json_schema",
    ),
    Manner(
        "DeepSeek",
        "a forced tool refused while thinking",
        refusing(
            "tool_choice",
            openai_refusal("Thinking mode does not support this tool_choice"),
            CALLED,
        ),
        calls=2,
        refused={"tool_choice": None},
        structured="tool",
    ),
    Manner(
        "Mistral",
        "Magistral's blocks",
        said([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}], "closed": True}, TEXT]),
    ),
    Manner(
        "Mistral",
        "a block of thought alone",
        said([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}], "length"),
        "raise chat.max_tokens",
    ),
    Manner("Mistral", "Magistral in the text", said(f"[THINK]{THOUGHT}[/THINK]{ANSWER}")),
    Manner(
        "Mistral",
        "max_completion_tokens refused with 422",
        refusing(
            "max_completion_tokens",
            {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "max_completion_tokens"],
                        "input": 99,
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
            status=422,
        ),
        calls=2,
        refused={"max_completion_tokens": "max_tokens"},
        parameters={"max_completion_tokens": 99},
    ),
    Manner("Gemini", "thoughts in the text", said(f"<thought>{THOUGHT}</thought>{ANSWER}")),
    Manner(
        "Gemini",
        "an unknown parameter, the error in a list",
        refusing(
            "min_p",
            [
                {
                    "error": {
                        "code": 400,
                        "message": 'Invalid JSON payload received. Unknown name "min_p": Cannot find field.',
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
        calls=2,
        refused={"min_p": None},
        parameters={"min_p": 0.1},
    ),
    Manner("Gemini", "json_schema", structured, structured="json_schema"),
    Manner(
        "TGI",
        "temperature 0 refused",
        refusing(
            "temperature",
            {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"},
            status=422,
        ),
        calls=2,
        refused=TEMPERATURE,
    ),
    Manner(
        "OpenRouter",
        "thoughts in reasoning and reasoning_details",
        said(ANSWER, reasoning=THOUGHT, reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}]),
    ),
    Manner(
        "OpenRouter",
        "no endpoint for a parameter, status 404",
        refusing(
            "tool_choice",
            {"error": {"message": "No endpoints found that support the provided 'tool_choice' value.", "code": 404}},
            CALLED,
            status=404,
        ),
        calls=2,
        refused={"tool_choice": None},
        structured="tool",
    ),
    Manner(
        "Cohere",
        "Command A in the text",
        said(f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>"),
    ),
    Manner("Anthropic", "thinking blocks", blocks(THINKING, TEXT), api="anthropic"),
    Manner(
        "Anthropic", "redacted thinking", blocks({"type": "redacted_thinking", "data": "Emwk"}, TEXT), api="anthropic"
    ),
    Manner(
        "Anthropic", "cut in thinking", blocks(THINKING, stop="max_tokens"), "raise chat.max_tokens", api="anthropic"
    ),
    Manner(
        "Anthropic",
        "temperature refused while thinking",
        refusing(
            "temperature",
            anthropic_refusal("`temperature` may only be set to 1 when thinking is enabled."),
            blocks(THINKING, TEXT),
        ),
        calls=2,
        refused=TEMPERATURE,
        api="anthropic",
        parameters={"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
    Manner(
        "Anthropic",
        "temperature deprecated",
        refusing("temperature", anthropic_refusal("`temperature` is deprecated for this model."), blocks(TEXT)),
        calls=2,
        refused=TEMPERATURE,
        api="anthropic",
    ),
    Manner(
        "Anthropic",
        "temperature beside top_p",
        refusing(
            "temperature",
            anthropic_refusal(
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
            ),
            blocks(TEXT),
        ),
        calls=2,
        refused=TEMPERATURE,
        api="anthropic",
        parameters={"top_p": 0.9},
    ),
    Manner("Anthropic", "tool", anthropic_structured, api="anthropic", structured="tool"),
    Manner("Anthropic", "json_schema", anthropic_structured, api="anthropic", structured="json_schema"),
    Manner(
        "Anthropic",
        "a forced tool refused while thinking",
        refusing(
            "tool_choice",
            anthropic_refusal("Thinking may not be enabled when tool_choice forces tool use."),
            blocks(THINKING, {"type": "tool_use", "id": "t", "name": "ranking", "input": {"ranking": [3, 1]}}),
        ),
        calls=2,
        refused={"tool_choice": None},
        api="anthropic",
        structured="tool",
        parameters={"thinking": {"type": "adaptive"}},
    ),
    Manner(
        "any gateway",
        "an answer tag after the thought",
        said(f"<thinking>{THOUGHT}</thinking>\n<answer>{ANSWER}</answer>"),
    ),
    Manner("any gateway", "a thought that never ends", said(f"{ANSWER}\n<think>{THOUGHT}"), "raise chat.max_tokens"),
    Manner("any gateway", "tags of another case", said(f"<Thinking>{THOUGHT}</Thinking>{ANSWER}")),
    Manner(
        "any gateway", "another error than a parameter's", lambda _: (400, openai_refusal("Bad request.")), "refused"
    ),
    Manner("any gateway", "a text without a number", said("I would rather not."), "bad answer"),
)
