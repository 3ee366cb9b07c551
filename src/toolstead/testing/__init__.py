"""For people who test their own tools and agents: a stead in memory, a real MCP client to it, a model by script.

```python
from toolstead.testing import connect, memory_stead

async with memory_stead(my_tool) as stead:
    result = await stead.call("my_tool", {"text": "hi"})
    async with connect(stead) as client:
        answer = await client.call_tool("my_tool", {"text": "hi"})
```

A script takes the place of a model (`toolstead.adapters.scripted.script` says which turn answers what):

```python
from toolstead.testing import ScriptedRuntime, load_script

runtime = ScriptedRuntime(load_script("script.yaml"))
runtime.received  # what the model received
```

The model APIs themselves can be played, for the real clients of Anthropic, OpenAI and Gemini:

```python
from toolstead.testing import scripted_models

async with scripted_models("- say: Hello!") as api:
    api.environ()  # variables that lead the clients to it
    api.requests  # what they sent
```

To test a plugin alone, give it a context whose powers work in memory:

```python
from toolstead.testing import call_tool, fake_context, run_hook

async with fake_context(plugin, settings={"volume": 3}) as ctx:
    result = await call_tool(plugin, "shout", {"text": "hi"}, context=ctx, thread_id="t1")
    ctx.sent, ctx.broadcasts, ctx.statuses  # what it did
```

Nothing of the user's own settings, tools or switches is read.
"""

from toolstead.adapters.scripted.model_apis import Captured, ScriptedModels, scripted_models
from toolstead.adapters.scripted.runtime import ScriptedRuntime
from toolstead.adapters.scripted.script_file import load_script
from toolstead.testing.memory_stead import connect, memory_stead
from toolstead.testing.plugin_context import FakeContext, call_tool, fake_context, run_hook

__all__ = [
    "Captured",
    "FakeContext",
    "ScriptedModels",
    "ScriptedRuntime",
    "call_tool",
    "connect",
    "fake_context",
    "load_script",
    "memory_stead",
    "run_hook",
    "scripted_models",
]
