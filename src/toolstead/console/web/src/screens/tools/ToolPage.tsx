import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState, type ReactNode } from "react";

import { api, take, type Shape } from "../../api/client";
import { useAccess } from "../../api/access";
import { ArgumentsInput } from "../../ui/form/ArgumentsInput";
import { firstLine } from "../../ui/format";
import { Markdown } from "../../ui/Markdown";
import { Button, Card, ErrorNotice, Facts, Json, Loading, PageHead } from "../../ui/parts";
import { Tabs } from "../../ui/Tabs";
import { ToolAnswer } from "../../ui/ToolAnswer";
import { CallLines } from "./CallLines";
import { ConnectLines } from "./ConnectLines";
import { describeSource } from "./source";
import { ToolHistory } from "./ToolHistory";
import { WhoSees } from "./WhoSees";
import "./tools.css";

type Tool = Shape<"ToolDetails">;

export function ToolPage({ name }: { name: string }): ReactNode {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["tools", name],
    queryFn: () => take(api.GET("/api/tools/{name}", { params: { path: { name } } })),
  });
  if (isPending) return <div className="page"><Loading what={name} /></div>;
  if (error) {
    return (
      <div className="page">
        <PageHead title={name} back={{ to: "/tools", name: "Tools" }} />
        <ErrorNotice error={error} retry={() => void refetch()} />
      </div>
    );
  }
  return (
    <div className="page">
      <PageHead
        title={<span className="mono">{data.name}</span>}
        back={{ to: "/tools", name: "Tools" }}
        actions={data.stale ? <span className="tag warn">stale: its file is broken, the last good version answers</span> : undefined}
      />
      <Markdown text={data.description} />
      <Facts
        of={[
          ["From", describeSource(data)],
          ["Where", <code>{data.origin}</code>],
        ]}
      />
      <Tabs
        label="About this tool"
        items={[
          { id: "call", name: "Call", panel: () => <CallTool tool={data} /> },
          { id: "history", name: "History", panel: () => <ToolHistory name={data.name} /> },
          { id: "schema", name: "Schema", panel: () => <Schemas tool={data} /> },
          { id: "agents", name: "Who can see it", panel: () => <WhoSees name={data.name} /> },
          { id: "connect", name: "Connect a client", panel: () => <ConnectLines tool={data.name} /> },
        ]}
      />
    </div>
  );
}

function CallTool({ tool }: { tool: Tool }): ReactNode {
  const { mayWrite } = useAccess();
  const [input, setInput] = useState<unknown>({});
  const [problem, setProblem] = useState("");
  const [turn, setTurn] = useState(0);
  const answerPlace = useRef<HTMLDivElement>(null);
  const stop = useRef<AbortController | null>(null);
  const call = useMutation({
    mutationFn: () => {
      stop.current = new AbortController();
      return take(
        api.POST("/api/tools/{name}/call", {
          params: { path: { name: tool.name } },
          body: { input: input as Record<string, unknown> },
          signal: stop.current.signal,
        }),
      );
    },
    onSettled: () => answerPlace.current?.scrollIntoView({ block: "nearest" }),
  });
  useEffect(() => () => stop.current?.abort(), []);
  const start = (): void => {
    if (mayWrite && !problem && !call.isPending) call.mutate();
  };
  return (
    <div className="two-columns">
      <div className="stack">
        {tool.examples && tool.examples.length > 0 && (
          <div className="row">
            <span className="soft">Examples:</span>
            {tool.examples.map((example, index) => (
              <Button
                key={index}
                small
                className="wrap mono"
                onClick={() => {
                  setInput(example);
                  setProblem("");
                  setTurn(turn + 1);
                }}
              >
                {firstLine(JSON.stringify(example), 60)}
              </Button>
            ))}
          </div>
        )}
        <ArgumentsInput
          key={turn}
          id="arguments"
          schema={tool.inputSchema}
          value={input}
          onChange={(typed, why) => {
            setInput(typed);
            setProblem(why);
          }}
          onSubmit={start}
        />
        <div className="row">
          <Button kind="primary" icon="play" disabled={!mayWrite || problem !== "" || call.isPending} onClick={start}>
            Call it
          </Button>
          {call.isPending && (
            <Button icon="stop" onClick={() => stop.current?.abort()}>
              Stop
            </Button>
          )}
        </div>
        <CallLines tool={tool.name} input={input} />
      </div>
      <div ref={answerPlace} aria-live="polite">
        <Card title="Answer">
          {call.isPending ? (
            <Loading what="It is running" />
          ) : call.error ? (
            call.error instanceof DOMException ? <p>Stopped: the call was cancelled.</p> : <ErrorNotice error={call.error} />
          ) : call.data ? (
            <ToolAnswer answer={call.data} />
          ) : (
            <p className="soft">What it answers is shown here.</p>
          )}
        </Card>
      </div>
    </div>
  );
}

function Schemas({ tool }: { tool: Tool }): ReactNode {
  return (
    <div className="stack wide">
      <section className="stack">
        <h2>Input</h2>
        <Json value={tool.inputSchema} label="Input schema" />
      </section>
      <section className="stack">
        <h2>Output</h2>
        {tool.outputSchema ? <Json value={tool.outputSchema} label="Output schema" /> : <p className="soft">It declares none.</p>}
      </section>
    </div>
  );
}

