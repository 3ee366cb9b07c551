"""The SDK's handlers for prompts, resources and completions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from msgspec import to_builtins

from toolstead.adapters.mcp.fast_path.listed_parts import PAGE
from toolstead.adapters.mcp.parts_port import OfferedParts
from toolstead.adapters.mcp.single_cancellation import run_cancelled_once
from toolstead.adapters.mcp.wire import is_modern, resource_contents_for, wire_block
from toolstead.errors import FailedRequestError, InvalidRequestError, NotFoundError, StorageError

logger = logging.getLogger(__name__)

RESOURCE_NOT_FOUND: Final = -32002
"""The code for an unknown resource before the modern revision, which has no code of its own for it."""
MOST_COMPLETIONS: Final = 100
"""Values of a completion, as the protocol says."""

Request = ServerRequestContext[Any, Any]
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class PartHandlers:
    """Answers what concerns prompts, resources and completions."""

    def __init__(self, parts: OfferedParts, may_see: Callable[[str], bool]) -> None:
        """Prepare to answer.

        Args:
            parts: What is offered.
            may_see: Whether this server's clients may call a tool.
        """
        self._parts = parts
        self._may_see = may_see

    def add_to(self, server: Server[Any]) -> None:
        """Register the handlers of every method; the capabilities follow from them."""
        add, page = server.add_request_handler, mcp_types.PaginatedRequestParams
        add("prompts/list", page, self._list_prompts)
        add("prompts/get", mcp_types.GetPromptRequestParams, self._get_prompt)
        add("resources/list", page, self._list_resources)
        add("resources/templates/list", page, self._list_templates)
        add("resources/read", mcp_types.ReadResourceRequestParams, self._read_resource)
        add("completion/complete", mcp_types.CompleteRequestParams, self._complete)

    async def _list_prompts(self, _: Request, params: mcp_types.PaginatedRequestParams) -> mcp_types.ListPromptsResult:
        await self._parts.prepare()
        page, following = cut_page(self._parts.lists.prompts, params.cursor, lambda prompt: prompt.name)
        prompts = [mcp_types.Prompt.model_validate(to_builtins(one), by_name=False) for one in page]
        return mcp_types.ListPromptsResult(prompts=prompts, next_cursor=following)

    async def _list_resources(
        self, _: Request, params: mcp_types.PaginatedRequestParams
    ) -> mcp_types.ListResourcesResult:
        await self._parts.prepare()
        page, following = cut_page(self._parts.lists.resources, params.cursor, lambda resource: resource.uri)
        resources = [mcp_types.Resource.model_validate(to_builtins(one), by_name=False) for one in page]
        return mcp_types.ListResourcesResult(resources=resources, next_cursor=following)

    async def _list_templates(
        self, _: Request, params: mcp_types.PaginatedRequestParams
    ) -> mcp_types.ListResourceTemplatesResult:
        await self._parts.prepare()
        page, following = cut_page(self._parts.lists.templates, params.cursor, lambda template: template.uri_template)
        templates = [mcp_types.ResourceTemplate.model_validate(to_builtins(one), by_name=False) for one in page]
        return mcp_types.ListResourceTemplatesResult(resource_templates=templates, next_cursor=following)

    async def _get_prompt(
        self, request: Request, params: mcp_types.GetPromptRequestParams
    ) -> mcp_types.GetPromptResult:
        work = self._parts.get_prompt(params.name, params.arguments or {})
        filled = await _answer(request, work, f"prompt {params.name[:80]!r}")
        return mcp_types.GetPromptResult(
            description=filled.description,
            messages=[
                mcp_types.PromptMessage(role=message.role, content=wire_block(message.content))
                for message in filled.messages
            ],
        )

    async def _read_resource(
        self, request: Request, params: mcp_types.ReadResourceRequestParams
    ) -> mcp_types.ReadResourceResult:
        uri = str(params.uri)
        contents = await _answer(request, self._parts.read_resource(uri, self._may_see), f"resource {uri[:80]!r}")
        return mcp_types.ReadResourceResult(contents=[resource_contents_for(one) for one in contents])

    async def _complete(self, request: Request, params: mcp_types.CompleteRequestParams) -> mcp_types.CompleteResult:
        asked, given = params.argument, (params.context.arguments if params.context is not None else None) or {}
        if isinstance(params.ref, mcp_types.PromptReference):
            work = self._parts.complete_argument(params.ref.name, asked.name, asked.value, given)
        else:
            work = self._parts.complete_variable(params.ref.uri, asked.name, asked.value, given)
        values = await _answer(request, work, f"completion of {asked.name[:80]!r}")
        shown = list(values[:MOST_COMPLETIONS])
        has_more = len(values) > len(shown)
        return mcp_types.CompleteResult(
            completion=mcp_types.Completion(values=shown, total=len(values), has_more=has_more)
        )


def cut_page(
    items: Sequence[Item], cursor: str | None, key_of: Callable[[Item], str]
) -> tuple[Sequence[Item], str | None]:
    """One page and the cursor of the next: the last key of the page, so it survives changes to the other items.

    Raises:
        MCPError: The cursor ends no page.
    """
    start = 0
    if cursor is not None:
        keys = [key_of(item) for item in items]
        if cursor not in keys:
            raise MCPError(
                code=mcp_types.INVALID_PARAMS,
                message=f"cursor {cursor[:80]!r} is not valid (any more); list again without a cursor",
            )
        start = keys.index(cursor) + 1
    page = items[start : start + PAGE]
    return page, key_of(page[-1]) if start + PAGE < len(items) else None


async def _answer(request: Request, work: Coroutine[Any, Any, Answer], what: str) -> Answer:
    """Wait for an answer, and turn what is wrong into the protocol's errors."""
    try:
        return await run_cancelled_once(work, name=f"the {what}")
    except NotFoundError as error:
        code = mcp_types.INVALID_PARAMS if is_modern(request.protocol_version) else RESOURCE_NOT_FOUND
        raise MCPError(code=code, message=f"Resource not found: {error.id}", data={"uri": error.id}) from None
    except InvalidRequestError as error:
        raise MCPError(code=mcp_types.INVALID_PARAMS, message=str(error)) from None
    except (FailedRequestError, StorageError) as error:
        logger.warning("%s: %s", what, error)
        raise MCPError(code=mcp_types.INTERNAL_ERROR, message=str(error)) from None
