import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { Link } from "wouter";

import { useAccess } from "../../api/access";
import { api, take, type Shape } from "../../api/client";
import { useEvents } from "../../live/LiveProvider";
import { count, firstLine } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { Button, Card, Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { say } from "../../ui/toast";
import { describeSource } from "./source";
import "./tools.css";

type Tool = Shape<"Tool">;

export function ToolList(): ReactNode {
  const [sought, setSought] = useState("");
  const [source, setSource] = useState("");
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["tools"],
    queryFn: () => take(api.GET("/api/tools")),
  });
  const reloaded = useReloadFlash();
  const tools = (data?.tools ?? []).filter((tool) => matches(tool, sought) && (!source || tool.source === source));
  return (
    <div className="page">
      <PageHead
        title="Tools"
        about={data && `${count(data.counts.total, "tool")}, generation ${data.generation}`}
        actions={<ReloadButton />}
      />
      {reloaded && <ReloadNote change={reloaded} />}
      {error && <ErrorNotice error={error} retry={() => void refetch()} />}
      {isPending && <Loading what="The tools" />}
      {data && data.quarantined.length > 0 && (
        <Card title={`${count(data.quarantined.length, "problem")}: these are kept out, the rest goes on`}>
          <ul className="stack tight plain">
            {data.quarantined.map((problem, index) => (
              <li key={index}>
                <span className="status place bad">
                  <Icon name="failed" />{" "}
                  <code>
                    {problem.source}
                    {problem.line ? `:${problem.line}${problem.column ? `:${problem.column}` : ""}` : ""}
                  </code>
                </span>{" "}
                {problem.toolName && <strong>{problem.toolName}: </strong>}
                {problem.message}
              </li>
            ))}
          </ul>
        </Card>
      )}
      {data && (
        <div className="row">
          <input
            type="search"
            className="input tool-search"
            placeholder="Search names and descriptions"
            aria-label="Search tools"
            value={sought}
            onChange={(event) => setSought(event.target.value)}
          />
          <select className="input tool-source" aria-label="Source" value={source} onChange={(event) => setSource(event.target.value)}>
            <option value="">every source</option>
            {(["builtin", "plugin", "agent", "mcp"] as const).map((one) => (
              <option key={one} value={one}>
                {one} ({data.counts[one]})
              </option>
            ))}
          </select>
        </div>
      )}
      {data && tools.length === 0 && (
        <Empty title={data.tools.length === 0 ? "There are no tools" : "No tool matches"}>
          {data.tools.length === 0 ? <Link href="/editor">Make one</Link> : <Button onClick={() => { setSought(""); setSource(""); }}>Show all</Button>}
        </Empty>
      )}
      {tools.length > 0 && (
        <ul className="list">
          {tools.map((tool) => (
            <li key={`${tool.name} ${tool.agentName ?? ""}`} className={reloaded && touches(reloaded, tool.name) ? "flash" : undefined}>
              <Link href={`/tools/${encodeURIComponent(tool.name)}`} className="list-row tool-row">
                <span className="tool-name">
                  <strong className="mono">{tool.name}</strong>
                  {tool.stale && <span className="tag warn">stale</span>}
                </span>
                <span className="grow truncate soft">{firstLine(tool.description)}</span>
                <span className="tag">{describeSource(tool)}</span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function ReloadButton(): ReactNode {
  const { mayWrite } = useAccess();
  const queries = useQueryClient();
  const reload = useMutation({
    mutationFn: () => take(api.POST("/api/tools/reload")),
    onSuccess: (answer) => {
      say(answer.success ? `Read again: ${count(answer.toolCount, "tool")}` : `Read again, with ${count(answer.errors.length, "problem")}`);
      void queries.invalidateQueries({ queryKey: ["tools"] });
    },
  });
  return (
    <>
      <Link href="/editor" className="button">
        <Icon name="plus" /> New tool
      </Link>
      <Button icon="retry" disabled={!mayWrite || reload.isPending} onClick={() => reload.mutate()}>
        Read again
      </Button>
    </>
  );
}

interface Change {
  added: readonly string[];
  removed: readonly string[];
  changed: readonly string[];
  schemaChanges: Readonly<Record<string, readonly Shape<"SchemaChange">[]>>;
}

function useReloadFlash(): Change | null {
  const [change, setChange] = useState<Change | null>(null);
  useEvents((events) => {
    for (const event of events) if (event.type === "tools.changed") setChange(readChange(event.data));
  });
  useEffect(() => {
    if (!change) return;
    const timer = window.setTimeout(() => setChange(null), 12_000);
    return () => window.clearTimeout(timer);
  }, [change]);
  return change;
}

function readChange(data: Readonly<Record<string, unknown>>): Change {
  const names = (key: string): readonly string[] => (Array.isArray(data[key]) ? (data[key] as string[]) : []);
  const schemas = data["schemaChanges"];
  return {
    added: names("added"),
    removed: names("removed"),
    changed: names("changed"),
    schemaChanges: (typeof schemas === "object" && schemas !== null ? schemas : {}) as Change["schemaChanges"],
  };
}

const touches = (change: Change, name: string): boolean => change.added.includes(name) || change.changed.includes(name);

function ReloadNote({ change }: { change: Change }): ReactNode {
  const parts = (["added", "removed", "changed"] as const).filter((key) => change[key].length > 0);
  return (
    <div className="hint-box" role="status" data-testid="reload">
      {parts.map((key) => (
        <p key={key}>
          <strong>{key}:</strong> {change[key].join(", ")}
        </p>
      ))}
      {Object.entries(change.schemaChanges).map(([name, changes]) =>
        changes.map((one, index) => (
          <p key={`${name}${index}`} className="mono">
            {name}
            {one.pointer}: {one.change}
            {one.breaking ? " (breaking)" : ""}
          </p>
        )),
      )}
    </div>
  );
}

function matches(tool: Tool, sought: string): boolean {
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${tool.name} ${tool.description} ${tool.origin}`.toLowerCase();
  return words.every((word) => text.includes(word));
}
