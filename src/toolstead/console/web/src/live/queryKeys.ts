/** Which cached answers an event makes stale. Keys begin with the area: `["runs"]`, `["runs", id]`, `["tasks", id]`. */
import type { LiveEvent } from "./connection";

type Key = readonly unknown[];

const NONE: readonly Key[] = [];

export function keysChangedBy(event: LiveEvent): readonly Key[] {
  const { type, runId, threadId, taskId } = event;
  switch (type) {
    case "run.started":
    case "completed":
    case "error":
    case "cancelled":
      return [["runs"], ["threads"], ["sessions"], ["health"], ...(runId ? [["steps", runId]] : [])];
    case "message":
      return threadId ? [["threads"]] : NONE;
    case "usage":
      return runId ? [["runs"], ["steps", runId]] : NONE;
    case "tools.changed":
      return [["tools"], ["tool-files"], ["agents"], ["health"], ["trust"]];
    case "plugin.status":
      return [["plugins"], ["tools"]];
    case "approval.requested":
    case "approval.resolved":
      return [["approvals"]];
    default:
      if (type.startsWith("task.")) return [["tasks"], ["runs"], ...(taskId ? [["tasks", taskId]] : [])];
      return NONE;
  }
}
