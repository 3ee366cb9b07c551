import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useRef, useState, type ReactNode } from "react";
import { useLocation } from "wouter";

import { api, Problem, take, type Shape } from "../../api/client";
import { Dialog } from "../../ui/Dialog";
import { count } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { Button, Card, ErrorNotice, PageHead } from "../../ui/parts";
import { say } from "../../ui/toast";
import { ToolPreview } from "./ToolPreview";

type Check = Shape<"ToolFileCheck">;
const QUIET_MS = 300;

/** Edits one file: it is checked while one types, shows what each tool would run, and is saved only when all is well. */
export function FileEditor(props: { name: string; text: string; digest: string; path?: string }): ReactNode {
  const [name, setName] = useState(props.name || guessName(props.text));
  const [text, setText] = useState(props.text);
  const [digest, setDigest] = useState(props.digest);
  const [saved, setSaved] = useState(props.digest ? props.text : "");
  const [asks, setAsks] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const [, go] = useLocation();
  const queries = useQueryClient();
  const settled = useSettled(useDeferredValue(text), QUIET_MS);
  const check = useQuery({
    queryKey: ["tool-file-check", name, settled],
    queryFn: ({ signal }) => take(api.POST("/api/tool-files/check", { body: { text: settled, ...(props.name ? { name } : {}) }, signal })),
    placeholderData: (old) => old,
    staleTime: 0,
    gcTime: 10_000,
  });
  const isNew = digest === "";
  const isChanged = text !== saved;
  const refresh = (): void => {
    for (const key of ["tools", "tool-files", "agents"]) void queries.invalidateQueries({ queryKey: [key] });
  };
  const save = useMutation({
    mutationFn: () => take(api.PUT("/api/tool-files/{name}", { params: { path: { name } }, body: { text, digest } })),
    onSuccess: (written) => {
      setDigest(written.digest);
      setSaved(text);
      say(`Saved: ${written.tools.join(", ")} can be called now.`);
      refresh();
      if (isNew) go(`/editor/${encodeURIComponent(written.name)}`, { replace: true });
    },
  });
  const remove = useMutation({
    mutationFn: () => take(api.DELETE("/api/tool-files/{name}", { params: { path: { name }, header: { "If-Match": `"${digest}"` } } })),
    onSuccess: () => {
      say(`${name}.json is deleted, and its tools are gone.`);
      refresh();
      go("/editor");
    },
    onSettled: () => setAsks(false),
  });
  useEffect(() => {
    if (!isChanged) return;
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault();
    window.addEventListener("beforeunload", warn);
    return () => window.removeEventListener("beforeunload", warn);
  }, [isChanged]);
  const problems = check.data?.problems ?? [];
  const isChecked = check.data !== undefined && settled === text && !check.isFetching;
  return (
    <div className="page">
      <PageHead
        title={isNew ? "New tool" : `${name}.json`}
        back={{ to: "/editor", name: "Tool editor" }}
        about={props.path && <code>{props.path}</code>}
        actions={
          <>
            {!isNew && (
              <Button kind="danger" icon="trash" onClick={() => setAsks(true)}>
                Delete
              </Button>
            )}
            <Button kind="primary" disabled={!isChanged || !isChecked || problems.length > 0 || save.isPending || !name} onClick={() => save.mutate()}>
              {isNew ? "Save" : "Save the change"}
            </Button>
          </>
        }
      />
      {save.error && <SaveProblem error={save.error} name={name} />}
      {remove.error && <ErrorNotice error={remove.error} />}
      <div className="two-columns editor">
        <div className="stack">
          {isNew && (
            <label className="field">
              <span className="label">File name</span>
              <input className="input mono" value={name} onChange={(event) => setName(event.target.value)} aria-describedby="file-hint" />
              <span className="hint" id="file-hint">{name || "NAME"}.json in your own tools folder: every project of yours has it.</span>
            </label>
          )}
          <div className="field">
            <label htmlFor="file-text">Text</label>
            <textarea
              id="file-text"
              ref={area}
              className="input mono editor-text"
              spellCheck={false}
              value={text}
              aria-invalid={problems.length > 0}
              aria-describedby="file-problems"
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
                  event.preventDefault();
                  if (isChanged && isChecked && problems.length === 0) save.mutate();
                }
              }}
            />
          </div>
          <Verdict check={check.data} error={check.error} isChecked={isChecked} onPlace={(line, column) => goTo(area.current, line, column)} />
        </div>
        <div className="stack">
          {check.data?.tools.map((tool) => <ToolPreview key={tool.name} tool={tool} text={settled} file={props.name} />)}
          {check.data?.tools.length === 0 && (
            <Card title="Preview"><p className="soft">What a call would run is shown here as soon as the text holds a good tool.</p></Card>
          )}
        </div>
      </div>
      <Dialog
        open={asks}
        onClose={() => setAsks(false)}
        title={`Delete ${name}.json?`}
        actions={
          <>
            <Button onClick={() => setAsks(false)}>Keep it</Button>
            <Button kind="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>Delete</Button>
          </>
        }
      >
        <p>Its tools are gone at once, for every agent and client. The text is not kept.</p>
      </Dialog>
    </div>
  );
}

function Verdict(props: { check: Check | undefined; error: unknown; isChecked: boolean; onPlace: (line: number, column: number) => void }): ReactNode {
  const { check, error, isChecked } = props;
  return (
    <div id="file-problems" className="stack tight" role="status">
      {Boolean(error) && <ErrorNotice error={error} />}
      {check && check.problems.length === 0 && (
        <p className="status good"><Icon name="done" /> {isChecked ? `${count(check.tools.length, "good tool")}, nothing is wrong` : "checking…"}</p>
      )}
      {check?.problems.map((problem, index) => (
        <p key={index} className="editor-problem">
          <span className="status bad"><Icon name="failed" /></span>
          {problem.line ? (
            <button type="button" className="button quiet small mono" onClick={() => props.onPlace(problem.line ?? 1, problem.column ?? 1)}>
              {problem.line}:{problem.column ?? 1}
            </button>
          ) : null}
          <span>{problem.toolName && <strong>{problem.toolName}: </strong>}{problem.message}</span>
        </p>
      ))}
      {check?.warnings.map((warning, index) => (
        <p key={index} className="editor-problem"><span className="status warn"><Icon name="warning" /></span> {describeWarning(warning)}</p>
      ))}
    </div>
  );
}

function SaveProblem({ error, name }: { error: unknown; name: string }): ReactNode {
  if (error instanceof Problem && error.status === 409) {
    return <ErrorNotice error={new Problem(409, `${name}.json has changed`, "Another program wrote it since you opened it, and nothing was saved. Copy what you typed, open the file again, and put it in.")} />;
  }
  return <ErrorNotice error={error} />;
}

function describeWarning(warning: object): string {
  const held = warning as Readonly<Record<string, unknown>>;
  return [held["client"] ?? held["clients"], held["toolName"] ?? held["tool"], held["message"]].filter(Boolean).map((part) => (Array.isArray(part) ? part.join(", ") : String(part))).join(": ");
}

function guessName(text: string): string {
  return /"name":\s*"([\w-]+)"/.exec(text)?.[1] ?? "my-tools";
}

function goTo(area: HTMLTextAreaElement | null, line: number, column: number): void {
  if (!area) return;
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
  area.focus();
  area.setSelectionRange(start, start + 1);
  area.scrollTop = Math.max((line - 5) * 18, 0);
}

/** A value once it has not changed for a moment. */
function useSettled<Value>(value: Value, quiet: number): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), quiet);
    return () => window.clearTimeout(timer);
  }, [value, quiet]);
  return settled;
}
