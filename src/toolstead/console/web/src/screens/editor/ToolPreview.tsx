import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { api, take, type Shape } from "../../api/client";
import { ArgumentsInput } from "../../ui/form/ArgumentsInput";
import { Card, Code, ErrorNotice, Facts, Json } from "../../ui/parts";

type Tool = Shape<"CheckedTool">;
type Held = Readonly<Record<string, unknown>>;

/** What a call of a tool would run, send or read, with arguments to try. Nothing is run. */
export function ToolPreview({ tool, text, file }: { tool: Tool; text: string; file: string }): ReactNode {
  const [input, setInput] = useState<unknown>({});
  const [problem, setProblem] = useState("");
  const { data, error } = useQuery({
    queryKey: ["tool-preview", tool.name, text, JSON.stringify(input)],
    queryFn: ({ signal }) =>
      take(api.POST("/api/tool-files/check", { body: { text, tool: tool.name, input: input as Record<string, unknown>, ...(file ? { name: file } : {}) }, signal })),
    placeholderData: (old) => old,
    gcTime: 10_000,
  });
  const checked = data?.tools.find((one) => one.name === tool.name);
  return (
    <Card title={<span className="mono">{tool.name}</span>} aside={<span className="tag">{tool.kind}</span>}>
      <div className="stack">
        <ArgumentsInput
          key={JSON.stringify(tool.inputSchema)}
          id={`try-${tool.name}`}
          schema={tool.inputSchema}
          value={input}
          onChange={(typed, why) => {
            setInput(typed);
            setProblem(why);
          }}
          onSubmit={() => undefined}
        />
        {!problem && error && <ErrorNotice error={error} />}
        {checked?.previewError ? (
          <p className="hint-box"><strong>A call with these would be refused:</strong> {checked.previewError}</p>
        ) : (
          checked?.preview && <Shown preview={checked.preview} />
        )}
        {tool.advice.length > 0 && <ul>{tool.advice.map((one, index) => <li key={index}>{one}</li>)}</ul>}
      </div>
    </Card>
  );
}

function Shown({ preview }: { preview: Held }): ReactNode {
  if (Array.isArray(preview["argv"])) {
    const programs = preview["argv"] as string[][];
    return (
      <div className="stack tight" data-testid="preview">
        <h3>It would run</h3>
        {programs.map((argv, index) => (
          <ol key={index} className="argv plain" aria-label="Program and arguments">
            {argv.map((token, place) => (
              <li key={place} className="mono">{token === "" ? <em>empty</em> : token}</li>
            ))}
          </ol>
        ))}
        {programs.length > 1 && <Code text={String(preview["command"] ?? "")} wrap />}
        <Facts of={[["In", preview["cwd"] ? <code>{String(preview["cwd"])}</code> : ""], ["Its input", preview["stdin"] ? <Code text={String(preview["stdin"])} wrap /> : ""]]} />
      </div>
    );
  }
  if (preview["url"]) {
    return (
      <div className="stack tight" data-testid="preview">
        <h3>It would ask</h3>
        <p className="mono"><strong>{String(preview["method"])}</strong> {String(preview["url"])}</p>
        {preview["headers"] !== undefined && <Json value={preview["headers"]} label="Headers" />}
        {preview["body"] !== undefined && preview["body"] !== null && <Code text={typeof preview["body"] === "string" ? preview["body"] : JSON.stringify(preview["body"], null, 2)} wrap label="Body" />}
      </div>
    );
  }
  return (
    <div className="stack tight" data-testid="preview">
      <h3>It would read</h3>
      <code>{String(preview["path"] ?? JSON.stringify(preview))}</code>
    </div>
  );
}
