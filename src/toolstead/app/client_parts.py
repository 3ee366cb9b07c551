"""What a stead offers to MCP clients besides tools: prompts, resources, and what its server says of itself.

Plugins' prompts and resources are there as soon as the plugins run. Files are read when a client first lists
something, because many steads only serve tools; from then on they are polled.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toolstead.app.watching import PollingWatcher
from toolstead.errors import InvalidRequestError, NotFoundError, PluginError
from toolstead.nearest_names import suggest
from toolstead.plugins.names import qualify_name
from toolstead.plugins.plugin_instance import PluginPrompt
from toolstead.types.client_parts import (
    SERVER_NAME,
    ArgumentInfo,
    ClientLists,
    FilledPrompt,
    ListKind,
    PromptInfo,
    ResourceInfo,
    ServerIcon,
    ServerIdentity,
    TemplateInfo,
)
from toolstead.types.content import EmbeddedResource
from toolstead.types.result import RESULTS, handle_in

if TYPE_CHECKING:
    from toolstead.app.database import KeptResults
    from toolstead.app.places import Places
    from toolstead.app.plugins import Plugins
    from toolstead.app.prompt_files import PromptFiles
    from toolstead.app.resource_files import ResourceFiles
    from toolstead.app.settings import McpSettings
    from toolstead.app.trust.approved import ProjectTrust
    from toolstead.plugins.contract import Prompt
    from toolstead.plugins.plugin_instance import PluginResource

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
PROGRAM: Final = "python"
"""Whose the prompts are that a program adds while it runs."""
RESULT_TEMPLATE: Final = RESULTS + "{handle}"
FILE_TEMPLATE: Final = "toolstead://files/{+path}"
_RESULTS_INFO = TemplateInfo(
    uri_template=RESULT_TEMPLATE,
    name="results",
    title="Whole results",
    description=(
        "The whole answer of a tool that was shown in part; the part ends with its address. A long one is read in "
        "pieces, each of which names the next."
    ),
)
_FILES_INFO = TemplateInfo(
    uri_template=FILE_TEMPLATE, name="files", title="Project files", description="Files that the settings name."
)

FILES_TOOL: Final = "file-reader"
"""Who may not use this tool may not read the project's files as resources either."""

Listener = Callable[[ListKind], None]
Shows = Callable[[str], bool]
"""Whether what has this name is shown to whoever asks."""
Watch = Callable[[PollingWatcher], Awaitable[None]]


def show_everything(_: str) -> bool:
    """Whoever is under no profile is shown every name."""
    return True


class ClientParts:
    """The prompts, resources and the identity of one stead.

    Attributes:
        lists: What is listed now; another object when it changed.
        identity: What the server says of itself now.
        is_ready: Whether the files were read.
    """

    def __init__(
        self,
        places: Places,
        trust: ProjectTrust,
        *,
        plugins: Callable[[], Plugins],
        kept: KeptResults,
        settings: Callable[[], McpSettings],
        watch: Watch,
        name: str = SERVER_NAME,
    ) -> None:
        """Read nothing yet.

        Args:
            places: Where the project and the user's folder are.
            trust: What of the project may be loaded.
            plugins: Whose prompts, resources and instructions are offered.
            kept: The whole results behind handles.
            settings: The current section `[mcp]`.
            watch: Opens a watcher for as long as the stead is open.
            name: What the server is called.
        """
        self.lists = ClientLists()
        self.identity = ServerIdentity(name=name)
        self.is_ready = False
        self._places, self._trust = places, trust
        self._plugins, self._kept = plugins, kept
        self._settings, self._watch = settings, watch
        self._reading = asyncio.Lock()
        self._icon: ServerIcon | None = None
        self._prompt_files: PromptFiles | None = None
        self._resource_files: ResourceFiles | None = None
        self._listed_files: tuple[ResourceInfo, ...] = ()
        self._prompts: Mapping[str, PluginPrompt] = {}
        self._resources: Mapping[str, PluginResource] = {}
        self._registered: dict[str, PluginPrompt] = {}
        self._listeners: dict[object, Listener] = {}

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Subscribe to changes of the lists; the returned function unsubscribes. A listener must not raise."""
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    def refresh(self) -> None:
        """Take over what plugins and settings say now, and notify the listeners of what changed."""
        self._take_prompts()
        self._take_resources()
        before, self.lists = self.lists, self.list_shown(show_everything)
        from toolstead.app.server_identity import build_identity

        identity = build_identity(self.identity.name, self._settings(), self._icon, self._plugins().list_instructions())
        if identity != self.identity:
            self.identity = identity
        if self.lists.prompts != before.prompts:
            self._notify("prompts")
        if (self.lists.resources, self.lists.templates) != (before.resources, before.templates):
            self._notify("resources")

    def list_shown(self, shows: Shows) -> ClientLists:
        """What is listed for whom these names are shown."""
        has_files = bool(self._settings().resources) and shows(FILES_TOOL)
        templates = [_RESULTS_INFO, *([_FILES_INFO] if has_files else ())]
        listed: list[ResourceInfo] = []
        for offered in self._resources.values():
            if not shows(name_resource(offered)):
                continue
            resource = offered.resource
            description = resource.description or None
            if "{" in resource.uri:
                template = TemplateInfo(
                    uri_template=resource.uri,
                    name=resource.name,
                    title=resource.title,
                    description=description,
                    mime_type=resource.mime_type,
                )
                templates.append(template)
            else:
                info = ResourceInfo(
                    uri=resource.uri,
                    name=resource.name,
                    title=resource.title,
                    description=description,
                    mime_type=resource.mime_type,
                )
                listed.append(info)
        return ClientLists(
            prompts=tuple(describe_prompt(one.prompt) for one in self._prompts.values() if shows(one.prompt.name)),
            resources=(*listed, *(self._listed_files if has_files else ())),
            templates=tuple(templates),
        )

    def register_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Add prompts of the program itself: all of them or none.

        Raises:
            PluginError: One is bad, or its name has a holder.
        """
        from toolstead.plugins.prompt_definition import check_prompts

        check_prompts(PROGRAM, prompts, bare=True)
        for prompt in prompts:
            if (holder := self._prompts.get(prompt.name)) is not None:
                reason = f"{prompt.name!r} is already held by {holder.origin}; choose another name"
                raise PluginError(plugin=PROGRAM, field="prompts", reason=reason)
        context = self._plugins().context_for(PROGRAM)
        self._registered.update(
            {prompt.name: PluginPrompt(prompt=prompt, origin=PROGRAM, context=context) for prompt in prompts}
        )
        self.refresh()

    def unregister_prompts(self, names: Sequence[str]) -> None:
        """Take away prompts of the program itself: all of them, or none.

        Raises:
            NotFoundError: None of that name was added.
        """
        for name in names:
            if name not in self._registered:
                raise NotFoundError("prompt", name)
        for name in names:
            self._registered.pop(name, None)
        self.refresh()

    async def open(self) -> None:
        """Read what the first answer of a server needs; files wait until they are listed."""
        await self._load_icon()
        self.refresh()

    async def prepare(self) -> None:
        """Read the files, the first time; from then on they are watched."""
        if self.is_ready:
            return
        async with self._reading:
            if self.is_ready:
                return
            from toolstead.app.prompt_files import PromptFiles
            from toolstead.app.resource_files import ResourceFiles

            self._prompt_files = PromptFiles(self._places, self._trust)
            self._resource_files = ResourceFiles(self._places.project, self._places.data)
            watcher = ClientPartsWatcher(self, self._prompt_files)  # before they are read: no change is missed
            await self._read_files(self._prompt_files, self._resource_files)
            await self._watch(watcher)
            self.is_ready = True
        self.refresh()

    async def reload(self) -> None:
        """Read the icon, and the files if they were read, again."""
        await self._load_icon()
        async with self._reading:
            if self._prompt_files is not None and self._resource_files is not None:
                await self._read_files(self._prompt_files, self._resource_files)
        self.refresh()

    async def list_files_again(self) -> None:
        """Look which files the settings' patterns name now."""
        files = self._resource_files
        if files is not None and files.patterns:
            async with self._reading:
                listed = await asyncio.to_thread(files.list_files)
            if listed != self._listed_files:
                self._listed_files = listed
                self.refresh()

    async def get_prompt(self, name: str, arguments: Mapping[str, str], shows: Shows = show_everything) -> FilledPrompt:
        """Fill a prompt in.

        Raises:
            InvalidRequestError: No such prompt, or its arguments do not fit.
            FailedRequestError: It failed.
        """
        from toolstead.plugins.client_calls import fill_prompt

        await self.prepare()
        return await fill_prompt(self._find_prompt(name, shows), arguments)

    async def read_resource(
        self, uri: str, may_see: Callable[[str], bool], shows: Shows = show_everything
    ) -> Sequence[EmbeddedResource]:
        """Read a resource, or the piece of it that the address names.

        Args:
            uri: Its address.
            may_see: Whether the reader may call a tool; the results of others are not for it.
            shows: Which names are shown to the reader.

        Raises:
            NotFoundError: No such resource.
            InvalidRequestError: It cannot be read so.
            FailedRequestError: A plugin's function failed.
            StorageError: The database cannot be read.
        """
        from toolstead.app.resource_pages import split_offset, take_piece

        await self.prepare()
        if uri.startswith(RESULTS):
            whole, offset = split_offset(uri)
            return take_piece(whole, await self._read_result(whole, may_see), offset)
        if self._resource_files is not None and uri.startswith("toolstead://files/") and shows(FILES_TOOL):
            whole, offset = split_offset(uri)
            return take_piece(whole, [await asyncio.to_thread(self._resource_files.read, whole)], offset)
        return await self._read_of_plugin(uri, shows)

    async def complete_argument(
        self, prompt: str, argument: str, text: str, given: Mapping[str, str], shows: Shows = show_everything
    ) -> Sequence[str]:
        """What an argument of a prompt may be that begins with a text; raises as `get_prompt`."""
        from toolstead.plugins.client_calls import complete_argument

        await self.prepare()
        return await complete_argument(self._find_prompt(prompt, shows), argument, text, given)

    async def complete_variable(
        self,
        template: str,
        variable: str,
        text: str,
        given: Mapping[str, str],
        shows: Shows = show_everything,
    ) -> Sequence[str]:
        """What a variable in the address of resources may be that begins with a text; raises as `read_resource`."""
        from toolstead.plugins.client_calls import complete_variable, find_beginnings

        await self.prepare()
        if template == FILE_TEMPLATE and variable == "path" and shows(FILES_TOOL):
            return find_beginnings([info.name for info in self._listed_files], text)
        if template == RESULT_TEMPLATE:
            return ()  # a handle is known to whoever was given it
        offered = self._resources.get(template)
        if offered is None or not shows(name_resource(offered)):
            raise InvalidRequestError(f"there is no resource template {template[:200]!r}; list the templates")
        return await complete_variable(offered, variable, text, given)

    async def _load_icon(self) -> None:
        icon = self._settings().icon
        if icon:
            from toolstead.app.server_identity import load_icon

            self._icon = await asyncio.to_thread(load_icon, icon, self._places)
        else:
            self._icon = None

    async def _read_files(self, prompts: PromptFiles, resources: ResourceFiles) -> None:
        resources.patterns = self._settings().resources
        await asyncio.to_thread(prompts.read)
        self._listed_files = await asyncio.to_thread(resources.list_files)

    def _take_prompts(self) -> None:
        of_files = self._prompt_files.prompts if self._prompt_files is not None else ()
        found: dict[str, PluginPrompt] = {}
        for offered in (*self._registered.values(), *self._plugins().list_prompts(), *of_files):
            holder = found.setdefault(offered.prompt.name, offered)
            if holder is not offered and self._prompts.get(offered.prompt.name) is not holder:
                name = offered.prompt.name
                logger.warning("%s: prompt %r is held by %s; rename one", offered.origin, name, holder.origin)
        self._prompts = found

    def _take_resources(self) -> None:
        found: dict[str, PluginResource] = {}
        for offered in self._plugins().list_resources():
            holder = found.setdefault(offered.resource.uri, offered)
            if holder is not offered and self._resources.get(offered.resource.uri) is not holder:
                uri = offered.resource.uri
                logger.warning("%s: resource %r is held by %s; rename one", offered.origin, uri, holder.origin)
        self._resources = found

    def _find_prompt(self, name: str, shows: Shows) -> PluginPrompt:
        if (found := self._prompts.get(name)) is None or not shows(name):
            shown = [known for known in self._prompts if shows(known)]
            hint = suggest(name, shown, show=repr, otherwise="prompts/list lists all")
            raise InvalidRequestError(f"there is no prompt {name[:80]!r}; {hint}")
        return found

    async def _read_result(self, uri: str, may_see: Callable[[str], bool]) -> list[EmbeddedResource]:
        handle = handle_in(uri)
        try:
            kept = await self._kept.find(handle)
        except NotFoundError:
            raise NotFoundError("resource", uri[:200]) from None
        if kept.tool is None or not may_see(kept.tool):
            logger.warning("%s is not read: its tool %r is not offered to the reader", uri[:60], kept.tool)
            raise NotFoundError("resource", uri[:200])
        return _split_result(uri, msgspec.json.decode(kept.content))

    async def _read_of_plugin(self, uri: str, shows: Shows) -> Sequence[EmbeddedResource]:
        from toolstead.plugins.client_calls import read_plugin_resource
        from toolstead.plugins.uri_template import UriTemplate

        for offered in self._resources.values():
            variables = UriTemplate(offered.resource.uri).match(uri)
            if variables is not None and shows(name_resource(offered)):
                content = await read_plugin_resource(offered, uri, variables)
                return [EmbeddedResource(uri=uri, content=content, mime_type=offered.resource.mime_type)]
        raise NotFoundError("resource", uri[:200])

    def _notify(self, kind: ListKind) -> None:
        for key, listener in tuple(self._listeners.items()):
            if key in self._listeners:
                listener(kind)


class ClientPartsWatcher(PollingWatcher):
    """Polls the user's prompts and the files that are resources, while a stead is open."""

    def __init__(self, parts: ClientParts, files: PromptFiles) -> None:
        super().__init__("prompts", POLL_SECONDS)
        self._parts = parts
        self._files = files
        self._seen = files.users.stamp()

    async def check(self) -> None:
        """Read the prompts again when one changed, and look for files."""
        seen = await asyncio.to_thread(self._files.users.stamp)
        if seen != self._seen:
            self._seen = seen
            await self._parts.reload()
        else:
            await self._parts.list_files_again()


def name_resource(offered: PluginResource) -> str:
    """What a profile calls a plugin's resource: as it calls its tools."""
    return qualify_name(offered.context.name, offered.resource.name)


def describe_prompt(prompt: Prompt) -> PromptInfo:
    """A prompt as it is listed."""
    arguments = tuple(
        ArgumentInfo(
            name=argument.name,
            title=argument.title,
            description=argument.description or None,
            required=argument.required,
        )
        for argument in prompt.arguments
    )
    return PromptInfo(
        name=prompt.name, title=prompt.title, description=prompt.description or None, arguments=arguments or None
    )


def _split_result(uri: str, result: Any) -> list[EmbeddedResource]:
    """The parts of a kept result, each as content of its own."""
    parts: list[EmbeddedResource] = []
    for part in result["content"]:
        match part:
            case {"type": "text", "text": text}:
                parts.append(EmbeddedResource(uri=uri, content=text, mime_type="text/plain"))
            case {"type": "image" | "audio", "data": data, "mimeType": kind}:
                parts.append(EmbeddedResource(uri=uri, content=b64decode(data), mime_type=kind))
            case {"type": "resource", "resource": {"blob": str() as data, **held}}:
                parts.append(EmbeddedResource(uri=uri, content=b64decode(data), mime_type=held.get("mimeType")))
            case {"type": "resource", "resource": {"text": str() as text, **held}}:
                parts.append(EmbeddedResource(uri=uri, content=text, mime_type=held.get("mimeType")))
            case _:
                text = msgspec.json.encode(part).decode()
                parts.append(EmbeddedResource(uri=uri, content=text, mime_type="application/json"))
    if not parts and "structuredContent" in result:
        text = msgspec.json.encode(result["structuredContent"]).decode()
        parts.append(EmbeddedResource(uri=uri, content=text, mime_type="application/json"))
    return parts
