import type { Shape } from "../../api/client";

/** Where a tool comes from, in a word or two. */
export function describeSource(tool: Shape<"Tool"> | Shape<"ToolDetails">): string {
  if (tool.source === "plugin") return tool.pluginName ? `plugin ${tool.pluginName}` : "plugin";
  if (tool.source === "agent") return tool.agentName ? `agent ${tool.agentName}` : "agent";
  if (tool.source === "mcp") return "MCP server";
  return "built in";
}
