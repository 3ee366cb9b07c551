"""The clients: what each needs, what drives it, and what it is known not to do by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

CHECKS = {
    "list": "lists our tools",
    "call": "calls one",
    "errors": "bad arguments come back as text that says where, as a JSON pointer",
    "nested": "takes nested and recursive schemas",
    "union": "takes a tool with `anyOf` at the top level",
    "reload": "hears of, or lists, a tool that came while it was connected",
    "cancel": "a cancelled call reaches the tool's code",
    "progress": "shows the progress that a tool reports",
    "image": "takes an image",
    "ask": "lets a tool ask its person (elicitation)",
    "sample": "lets a tool ask its model (sampling)",
    "prompts": "lists prompts",
    "resources": "lists resources",
    "close": "closes cleanly while a call is left alone",
}
"""What is tried, in the order of the columns."""

AGENT_CHECKS = tuple(check for check in CHECKS if check != "close")
PROGRAM_CHECKS = ("list", "call", "errors", "nested", "union", "reload", "cancel", "image", "ask", "sample")

Transport = Literal["stdio", "http"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client.

    Attributes:
        title: What people call it, with its version.
        driver: A script in `drivers`, a name in `BRIDGES` or `PROGRAMS`, or `inspector`.
        python: Its packages.
        node: Its npm packages.
        variant: What the driver is told, where one serves several clients.
        transports: How it can reach the server.
        checks: What is tried.
        limits: What it cannot do by itself, by check, or by check and transport, and how that shows.
        ours: What it cannot do for want of something on our side, in the same way.
        api: The API of the scripted model behind it, where it is an agent: `openai`, `gemini`, `anthropic`.
        prefix: What it puts before the names of our tools, where its scripted model has to know.
        blocked: Tools without which it loads the others; the checks of schemas are done with all.
    """

    title: str
    driver: str
    python: Sequence[str] = ()
    node: Sequence[str] = ()
    variant: str = ""
    transports: Sequence[Transport] = ("stdio", "http")
    checks: Sequence[str] = tuple(CHECKS)
    limits: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    api: str = ""
    prefix: str = ""
    blocked: Sequence[str] = ()


_NO_CANCELLED = "the SDK sends no notifications/cancelled when a call is given up; one sent by hand reaches the tool"
_UNDECLARED = "it does not declare that it can, and tells its model only that an error occurred"

CLIENTS: Mapping[str, Client] = {
    "mcp-1.30": Client(
        title="mcp 1.30.0",
        driver="with_mcp_1.py",
        python=["mcp==1.30.0"],
        limits={"cancel": _NO_CANCELLED},
    ),
    "mcp-1.20": Client(
        title="mcp 1.20.0",
        driver="with_mcp_1.py",
        python=["mcp==1.20.0", "pydantic<2.12"],
        limits={"cancel": _NO_CANCELLED},
    ),
    "mcp-2.3": Client(
        title="mcp 2.3.0, handshake",
        driver="with_mcp_2.py",
        python=["mcp==2.3.0"],
        variant="legacy",
    ),
    "mcp-2.3-modern": Client(
        title="mcp 2.3.0, modern (its default)",
        driver="with_mcp_2.py",
        python=["mcp==2.3.0"],
        variant="auto",
    ),
    "fastmcp-3": Client(
        title="FastMCP 3.4.10",
        driver="with_fastmcp.py",
        python=["fastmcp==3.4.10"],
        limits={"cancel": "mcp 1.x below it sends no notifications/cancelled"},
    ),
    "fastmcp-4": Client(
        title="FastMCP 4.1.2, handshake",
        driver="with_fastmcp.py",
        python=["fastmcp==4.1.2"],
        variant="legacy",
    ),
    "fastmcp-4-modern": Client(
        title="FastMCP 4.1.2, modern (its default)",
        driver="with_fastmcp.py",
        python=["fastmcp==4.1.2"],
        variant="auto",
        limits={"reload": "it never opens subscriptions/listen; what it lists is fresh"},
    ),
    "ts-sdk-1": Client(
        title="TypeScript SDK 1.32.2",
        driver="with_ts_sdk.mjs",
        node=["@modelcontextprotocol/sdk@1.32.2"],
        variant="sdk",
    ),
    "ts-client-2": Client(
        title="TypeScript client 2.4.0, handshake (its default)",
        driver="with_ts_sdk.mjs",
        node=["@modelcontextprotocol/client@2.4.0"],
        variant="legacy",
    ),
    "ts-client-2-auto": Client(
        title="TypeScript client 2.4.0, `auto`",
        driver="with_ts_sdk.mjs",
        node=["@modelcontextprotocol/client@2.4.0"],
        variant="auto",
    ),
    "ts-client-2-modern": Client(
        title="TypeScript client 2.4.0, modern",
        driver="with_ts_sdk.mjs",
        node=["@modelcontextprotocol/client@2.4.0"],
        variant="pinned",
    ),
    "ai-sdk": Client(
        title="@ai-sdk/mcp 1.0.101",
        driver="with_ai_sdk.mjs",
        node=["@ai-sdk/mcp@1.0.101", "ai@7.0.173", "zod@4"],
        limits={"cancel": "it sends no notifications/cancelled when a call is aborted"},
    ),
    "pydantic-ai": Client(
        title="pydantic-ai 2.66",
        driver="with_pydantic_ai.py",
        python=["pydantic-ai-slim[mcp,openai]==2.66.0"],
        api="openai-chat",
        checks=AGENT_CHECKS,
        limits={"reload": "it lists the tools once and listens to nothing"},
    ),
    "langchain": Client(
        title="langchain-mcp-adapters 0.3.2, langgraph 1.2",
        driver="with_langchain.py",
        python=["langchain-mcp-adapters==0.3.2", "langgraph==1.2.22", "langchain-openai==1.7.3", "langchain==1.4.7"],
        api="openai-chat",
        checks=[*AGENT_CHECKS, "close"],
        limits={"cancel": "mcp 1.x below it sends no notifications/cancelled"},
    ),
    "openai-agents": Client(
        title="openai-agents 0.24",
        driver="with_openai_agents.py",
        python=["openai-agents==0.24.0"],
        api="openai",
        checks=AGENT_CHECKS,
        limits={"ask": _UNDECLARED, "sample": _UNDECLARED},
    ),
    "google-adk": Client(
        title="google-adk 2.13",
        driver="with_google_adk.py",
        python=["google-adk[mcp]==2.13.0"],
        api="gemini",
        checks=AGENT_CHECKS,
    ),
    "strands": Client(
        title="strands-agents 1.62",
        driver="with_strands.py",
        python=["strands-agents[openai]==1.62.0"],
        api="openai-chat",
        checks=AGENT_CHECKS,
    ),
    "smolagents": Client(
        title="smolagents 1.26",
        driver="with_smolagents.py",
        python=["smolagents[mcp]==1.26.0", "mcp<2"],
        checks=AGENT_CHECKS,
        blocked=["lab__tree"],
        limits={
            "nested": "its ToolCallingAgent cannot send a recursive schema, so it asks its model nothing at all",
            "reload": "it lists the tools once",
            "cancel": "its tools are plain functions, which nothing cancels",
        },
    ),
    "autogen": Client(
        title="autogen-ext 0.7.5",
        driver="with_autogen.py",
        python=["autogen-ext[mcp,openai]==0.7.5", "autogen-agentchat==0.7.5", "mcp<2"],
        api="openai-chat",
        checks=AGENT_CHECKS,
        blocked=["lab__order", "lab__tree"],
        limits={
            "nested": "it loads no tool at all when one has a const without a type, or a recursive schema",
            "errors": "it refuses bad arguments itself, as readable, with dots instead of slashes",
            "cancel": "mcp 1.x below it sends no notifications/cancelled",
        },
    ),
    "llama-index": Client(
        title="llama-index-tools-mcp 0.6",
        driver="with_llama_index.py",
        python=["llama-index-tools-mcp==0.6.0"],
        checks=AGENT_CHECKS,
        blocked=["lab__tree"],
        limits={"nested": "it loads no tool at all when one has a recursive schema: RecursionError"},
    ),
    "inspector": Client(
        title="MCP Inspector 2.12.0, command line",
        driver="inspector",
        node=["@modelcontextprotocol/inspector@2.12.0"],
        checks=["list", "call", "errors", "nested", "union", "image", "prompts", "resources"],
    ),
    "mcp-remote": Client(
        title="mcp-remote 0.15.1 in front of HTTP",
        driver="mcp-remote",
        node=["mcp-remote@0.15.1"],
        transports=["stdio"],
    ),
    "supergateway": Client(
        title="supergateway 4.0.0",
        driver="supergateway",
        node=["supergateway@4.0.0"],
        limits={
            f"{check} stdio": "from HTTP to stdio it passes on no notification and no request of the server"
            for check in ("reload", "progress", "ask", "sample")
        },
    ),
    "mcp-proxy": Client(
        title="mcp-proxy 0.13.0",
        driver="mcp-proxy",
        python=["mcp-proxy==0.13.0"],
        limits={
            "reload": "it passes on no list_changed; what it lists is fresh",
            "cancel": "it passes on no cancellation",
            "progress http": "from stdio to HTTP it passes on no progress",
        },
    ),
    "claude-code": Client(
        title="Claude Code, waiting for its servers",
        driver="claude",
        checks=PROGRAM_CHECKS,
    ),
    "claude-code-as-added": Client(
        title="Claude Code, as added",
        driver="claude",
        variant="as added",
        checks=["list"],
    ),
    "codex": Client(
        title="Codex, `required = true`",
        driver="codex",
        checks=PROGRAM_CHECKS,
        limits={"reload": "a thread keeps the tools of its beginning"},
    ),
    "codex-as-added": Client(
        title="Codex, as added",
        driver="codex",
        variant="as added",
        checks=["list"],
    ),
    "gemini-cli": Client(
        title="gemini-cli 0.61",
        driver="gemini",
        node=["@google/gemini-cli@0.61.0"],
        prefix="mcp_toolstead_",
        checks=PROGRAM_CHECKS,
        limits={"cancel http": "interrupted, it ends without a notifications/cancelled"},
    ),
    "opencode": Client(
        title="opencode 1.18.33",
        driver="opencode",
        node=["opencode-ai@1.18.33"],
        prefix="toolstead_",
        checks=PROGRAM_CHECKS,
        limits={"cancel http": "interrupted, it ends without a notifications/cancelled"},
    ),
    "llm": Client(
        title="llm 0.36, llm-tools-mcp 0.4",
        driver="llm",
        python=["llm==0.36", "llm-tools-mcp==0.4", "mcp<2"],
        checks=PROGRAM_CHECKS,
        limits={"reload": "it lists the tools once, at its start"},
    ),
}
