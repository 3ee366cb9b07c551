import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { Link, useRoute } from "wouter";

import { useAccess } from "../../api/access";
import { parseExactly } from "../../ui/exactJson";
import { ArgumentsInput } from "../../ui/form/ArgumentsInput";
import { formatDuration } from "../../ui/format";
import { Button, Card, Code, Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { Markdown } from "../../ui/Markdown";
import { listOperations, makeSchema, writeRequest, type ApiDocument, type Operation } from "./operations";
import "./try.css";

const MOST_SHOWN = 200_000;

/** Every route of this server, to try: what is sent, and what comes back. */
export default function Try(): ReactNode {
  const [, params] = useRoute("/try/:operation");
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["openapi"],
    queryFn: async () => {
      const response = await fetch("/openapi.json");
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      return (await response.json()) as ApiDocument;
    },
    staleTime: Infinity,
  });
  const operations = useMemo(() => (data ? listOperations(data) : []), [data]);
  if (isPending) return <div className="page"><Loading what="The routes" /></div>;
  if (error) return <div className="page"><ErrorNotice error={error} retry={() => void refetch()} /></div>;
  const chosen = params && operations.find((one) => one.id === decodeURIComponent(params.operation));
  if (params) {
    return chosen ? <TryOne key={chosen.id} operation={chosen} document={data} /> : <div className="page"><Empty title="There is no such route"><Link href="/try">All routes</Link></Empty></div>;
  }
  return (
    <div className="page">
      <PageHead title="API" about={<>Every route, to try on this server. <a href="/docs">The reference</a> says what each member means.</>} />
      <ul className="list">
        {operations.map((one) => (
          <li key={one.id}>
            <Link href={`/try/${encodeURIComponent(one.id)}`} className="list-row try-row">
              <span className="tag mono try-method">{one.method}</span>
              <span className="mono try-path">{one.path}</span>
              <span className="grow truncate soft">{one.summary}</span>
              {one.isPrivate && <span className="tag">private</span>}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

interface Answer {
  status: number;
  ok: boolean;
  type: string;
  text: string;
  took: number;
}

function TryOne({ operation, document }: { operation: Operation; document: ApiDocument }): ReactNode {
  const { mayWrite } = useAccess();
  const schema = useMemo(() => makeSchema(operation, document), [operation, document]);
  const [value, setValue] = useState<unknown>(operation.example);
  const [problem, setProblem] = useState("");
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [isOpen, setOpen] = useState(false);
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);
  const mayNot = !mayWrite && operation.method !== "GET";
  const send = async (): Promise<void> => {
    if (mayNot || problem || isOpen) return;
    const { address, init } = writeRequest(operation, value);
    const abort = (stop.current = new AbortController());
    const begin = performance.now();
    setFailure(null);
    setOpen(true);
    try {
      const response = await fetch(address, { ...init, signal: abort.signal });
      const base = { status: response.status, ok: response.ok, type: response.headers.get("content-type") ?? "" };
      const show = (text: string): void => setAnswer({ ...base, text, took: performance.now() - begin });
      show("");
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      while (reader && text.length < MOST_SHOWN) {
        const { done, value: more } = await reader.read();
        if (done) break;
        text += more;
        show(text);
      }
      if (text.length >= MOST_SHOWN) abort.abort();
    } catch (error) {
      if (!abort.signal.aborted) setFailure(error);
    } finally {
      setOpen(false);
    }
  };
  const { address, init } = writeRequest(operation, value);
  return (
    <div className="page">
      <PageHead title={<span className="mono">{operation.method} {operation.path}</span>} back={{ to: "/try", name: "API" }} />
      <Markdown text={operation.description || operation.summary} />
      <div className="two-columns">
        <div className="stack">
          <ArgumentsInput
            id="request"
            schema={schema}
            value={value}
            onChange={(typed, why) => {
              setValue(typed);
              setProblem(why);
            }}
            onSubmit={() => void send()}
          />
          <div className="row">
            <Button kind="primary" icon="play" disabled={mayNot || problem !== "" || isOpen} onClick={() => void send()}>
              Send
            </Button>
            {isOpen && (
              <Button icon="stop" onClick={() => stop.current?.abort()}>
                Stop
              </Button>
            )}
          </div>
          <details>
            <summary>As curl</summary>
            <Code text={writeCurl(address, init)} wrap />
          </details>
        </div>
        <Card title="Answer">
          {failure ? (
            <ErrorNotice error={failure} />
          ) : answer ? (
            <div className="stack" data-testid="answer">
              <p className="row">
                <strong className={answer.ok ? "status good" : "status bad"}>{answer.status}</strong>
                <span className="soft">{answer.type}</span>
                <span className="soft number">{formatDuration(answer.took)}</span>
              </p>
              <Code text={pretty(answer)} wrap />
            </div>
          ) : (
            <p className="soft">What comes back is shown here.</p>
          )}
        </Card>
      </div>
    </div>
  );
}

function pretty({ type, text }: Answer): string {
  if (!/json/.test(type)) return text;
  try {
    return JSON.stringify(parseExactly(text), null, 2);
  } catch {
    return text;
  }
}

function writeCurl(address: string, init: RequestInit): string {
  const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const method = init.method === "GET" ? "" : ` -X ${init.method}`;
  const body = init.body ? ` -H 'Content-Type: application/json' -d ${quote(String(init.body))}` : "";
  return `curl -s${method} ${quote(window.location.origin + address)} -H "Authorization: Bearer $TOOLSTEAD_TOKEN"${body}`;
}
