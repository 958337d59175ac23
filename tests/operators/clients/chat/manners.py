"""Chat servers' manners by name, and what comes of each with which settings: the one table of them.

Tests play each of them, and pages of the documentation may be made of it.
"""

from typing import Final

from tests.operators.clients.chat.playing import (
    ANSWER,
    THOUGHT,
    Manner,
    anthropic_refusal,
    anthropic_structured,
    blocks,
    for_texts,
    openai_refusal,
    refusing,
    said,
    structured,
)

TEXT: Final = {"type": "text", "text": ANSWER}
THINKING: Final = {"type": "thinking", "thinking": THOUGHT, "signature": "EqQB"}
THINKS: Final = {"thinking": {"type": "adaptive"}}

REASONING: Final = refusing(
    ("max_tokens", "temperature"),
    openai_refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens"),
)
NO_SCHEMA: Final = openai_refusal("This response_format type is unavailable now", None, "invalid_request_error")
NO_TEMPERATURE: Final = anthropic_refusal("`temperature` may only be set to 1 when thinking is enabled.")

MANNERS: Final[tuple[Manner, ...]] = (
    Manner("OpenAI", "json_schema", structured),
    Manner("OpenAI", "tool", structured, structured="tool"),
    Manner("OpenAI", "max_tokens and temperature refused", REASONING, "refused"),
    Manner("OpenAI", "max_tokens and temperature refused", REASONING, kind="openai_reasoning"),
    Manner("OpenAI", "all tokens spent on hidden thoughts", said("", "length"), "raise chat.max_tokens"),
    Manner("vLLM", "thoughts in reasoning", said(ANSWER, reasoning=THOUGHT)),
    Manner("vLLM", "an answer in reasoning_content", said(None, reasoning_content=ANSWER), "thinking off"),
    Manner(
        "vLLM", "cut in reasoning_content", said(None, "length", reasoning_content=THOUGHT), "raise chat.max_tokens"
    ),
    Manner("vLLM", "no reasoning parser", said(f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}")),
    Manner("vLLM", "no reasoning parser, the template opens the thought", said(f"{THOUGHT}\n</think>\n\n{ANSWER}")),
    Manner("vLLM", "no reasoning parser, cut", said(f"<think>\n{THOUGHT}", "length"), "raise chat.max_tokens"),
    Manner(
        "vLLM",
        "the prompt is over the context",
        for_texts(openai_refusal("'max_tokens' is too large: 1024. The maximum context length is 900 tokens.")),
        "refused",
    ),
    Manner(
        "vLLM",
        "gpt-oss without its parser",
        said(
            f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>"
        ),
    ),
    Manner("SGLang", "separate reasoning", said(ANSWER, reasoning_content=THOUGHT)),
    Manner("SGLang", "Kimi without its parser", said(f"◁think▷{THOUGHT}◁/think▷{ANSWER}")),
    Manner("llama-server", "reasoning format none", said(f"<think>{THOUGHT}</think>{ANSWER}")),
    Manner("llama-server", "json_schema", structured),
    Manner(
        "llama-server",
        "tools without --jinja, status 500",
        refusing("tools", {"error": {"code": 500, "message": "tools param requires --jinja flag"}}, status=500),
        "refused",
        structured="tool",
    ),
    Manner("Ollama", "thoughts in reasoning", said(ANSWER, reasoning=THOUGHT)),
    Manner("DeepSeek", "json_schema refused", refusing("response_format", NO_SCHEMA), "refused"),
    Manner(
        "DeepSeek",
        "json_object",
        lambda body: said(ANSWER)(body) if body["response_format"] == {"type": "json_object"} else (400, NO_SCHEMA),
        kind="deepseek",
    ),
    Manner(
        "DeepSeek",
        "a forced tool refused while thinking",
        refusing("tool_choice", openai_refusal("Thinking mode does not support this tool_choice")),
        "refused",
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
        said([{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]),
        "thinking off",
    ),
    Manner("Mistral", "Magistral in the text", said(f"[THINK]{THOUGHT}[/THINK]{ANSWER}")),
    Manner("Gemini", "thoughts in the text", said(f"<thought>{THOUGHT}</thought>{ANSWER}")),
    Manner("Gemini", "json_schema", structured),
    Manner(
        "TGI",
        "temperature 0 refused",
        refusing(
            "temperature",
            {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"},
            status=422,
        ),
        parameters={"temperature": None},
    ),
    Manner(
        "OpenRouter",
        "thoughts in reasoning and reasoning_details",
        said(ANSWER, reasoning=THOUGHT, reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}]),
    ),
    Manner("Anthropic", "thinking blocks", blocks(THINKING, TEXT), kind="anthropic", parameters=THINKS),
    Manner("Anthropic", "cut in thinking", blocks(THINKING, stop="max_tokens"), "raise chat.max_tokens", "anthropic"),
    Manner(
        "Anthropic",
        "temperature refused while thinking",
        refusing("temperature", NO_TEMPERATURE, blocks(THINKING, TEXT)),
        "refused",
        "anthropic",
        parameters=THINKS,
    ),
    Manner(
        "Anthropic",
        "temperature refused while thinking",
        refusing("temperature", NO_TEMPERATURE, blocks(THINKING, TEXT)),
        kind="anthropic",
        parameters={**THINKS, "temperature": None},
    ),
    Manner("Anthropic", "tool", anthropic_structured, kind="anthropic", structured="tool"),
    Manner("Anthropic", "json_schema", anthropic_structured, kind="anthropic"),
    Manner("any gateway", "JSON in a fence", said(f"```json\n{ANSWER}\n```"), structured="none"),
    Manner("any gateway", "numbers without JSON", said("3, 1"), structured="none"),
    Manner("any gateway", "a text without a number", said("I would rather not."), "bad answer"),
)
