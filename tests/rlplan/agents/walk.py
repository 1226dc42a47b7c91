"""What a tool of rlplan's MCP server returned."""

from typing import Any


def answer_of(result: Any) -> Any:
    assert not result.is_error, result.content[0].text
    return result.structured_content["answer"]


def text_of(result: Any, *, failed: bool) -> str:
    assert result.is_error is failed
    return str(result.content[0].text)
