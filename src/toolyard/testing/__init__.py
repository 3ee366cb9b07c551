"""For people who test their own tools: a yard in memory, and a real MCP client to it.

```python
from toolyard.testing import connect, memory_yard

async with memory_yard(my_tool) as yard:
    result = await yard.call("my_tool", {"text": "hi"})
    async with connect(yard) as client:
        answer = await client.call_tool("my_tool", {"text": "hi"})
```

Below: `app`. Nothing of the user's own settings, tools or switches is read.
"""

from toolyard.testing.memory_yard import connect, memory_yard

__all__ = ["connect", "memory_yard"]
