import type { ReactNode } from "react";

import { Code } from "../../ui/parts";

const CLIENTS = ["claude-code", "codex", "gemini", "opencode", "cursor", "vscode", "claude-desktop"] as const;

/** What to type so that an agent's own program has this project's tools. */
export function ConnectLines({ tool }: { tool: string }): ReactNode {
  return (
    <div className="stack">
      <p>
        One line in the project's folder, and the client has <code>{tool}</code> and the other tools in its next session:
      </p>
      <Code text={CLIENTS.map((client) => `toolstead connect ${client}`).join("\n")} label="Commands that connect a client" />
      <p>Through this server, also from another machine where it may be reached:</p>
      <Code text={`toolstead connect claude-code --url ${window.location.origin}/mcp`} />
      <p className="soft">
        Claude Code shows the tool as <code>mcp__toolstead__{tool}</code>.
      </p>
    </div>
  );
}
