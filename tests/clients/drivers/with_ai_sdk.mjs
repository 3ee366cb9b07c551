// The MCP client of Vercel's AI SDK, and an agent of it on a scripted model API.

import { createMCPClient, ElicitationRequestSchema } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as Stdio } from "@ai-sdk/mcp/mcp-stdio";
import { command, args, drive, isStdio, logHas, expect, runChecks, stage } from "./probe.mjs";

async function open() {
  const transport = isStdio ? new Stdio({ command, args, env: stage.environ }) : { type: "http", url: stage.url };
  const client = await createMCPClient({ transport, capabilities: { elicitation: {} } });
  client.onElicitationRequest(ElicitationRequestSchema, async () => ({ action: "accept", content: { name: "Ada" } }));
  return {
    client,
    async tools() {
      const tools = await client.tools();
      return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, tool.inputSchema.jsonSchema]));
    },
    async call(name, input, signal) {
      const tools = await client.tools();
      const result = await tools[name].execute(input, { toolCallId: "1", messages: [], abortSignal: signal });
      const text = result.content.map((part) => part.text ?? "").join("");
      return { isError: result.isError ?? false, text, kinds: result.content.map((part) => part.type) };
    },
    prompts: async () => (await client.experimental_listPrompts()).prompts.length,
    resources: async () => (await client.listResources()).resources.length,
  };
}

await drive(
  async () => {
    const connection = await open();
    await runChecks(connection);
    await connection.client.close();
  },
  async () => {
    const connection = await open();
    connection.call("lab__wait", { tag: "abandoned" }).catch(() => undefined);
    expect(await logHas("began abandoned", 10), "it never began");
    await connection.client.close();
  },
);
