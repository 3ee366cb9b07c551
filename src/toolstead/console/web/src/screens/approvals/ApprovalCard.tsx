/** One call that waits for a person: what would run, why it is asked, and the ways to decide. Shown in Chat and in Approvals. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link } from "wouter";

import { useAccess } from "../../api/access";
import { api, Problem, take, type Shape } from "../../api/client";
import { parseExactly, simplify } from "../../ui/exactJson";
import { ArgumentsInput } from "../../ui/form/ArgumentsInput";
import { formatAge, formatDuration } from "../../ui/format";
import { Button, Code, ErrorNotice, Loading, useNow } from "../../ui/parts";
import { Status } from "../../ui/Status";

type Approval = Shape<"Approval">;
type Mode = "look" | "edit" | "deny";

export function ApprovalCard({ approval, isShort = false }: { approval: Approval; isShort?: boolean }): ReactNode {
  const [mode, setMode] = useState<Mode>("look");
  return (
    <section className="card approval" aria-label={`Approval of ${approval.tool}`}>
      <div className="card-head">
        <Status of="waiting" />
        <strong className="mono">{approval.tool}</strong>
        <span className="grow" />
        <TimeLeft until={approval.expiresAt} />
      </div>
      <div className="card-body stack">
        <p>
          {approval.shown.reason} <span className="soft">(asked by {approval.askedBy || "a gate"})</span>
        </p>
        {mode === "edit" ? (
          <EditedCall approval={approval} onEnd={() => setMode("look")} />
        ) : (
          <Code text={approval.shown.input} wrap label={`Arguments of ${approval.tool}`} />
        )}
        {mode === "look" && <Decide approval={approval} onMode={setMode} />}
        {mode === "deny" && <Deny approval={approval} onEnd={() => setMode("look")} />}
        {!isShort && (
          <p className="soft small">
            <Link href={`/chat/${encodeURIComponent(approval.threadId)}`}>conversation</Link>
            {approval.runId && (
              <>
                {" · "}
                <Link href={`/runs/${encodeURIComponent(approval.runId)}`}>run</Link>
              </>
            )}
            {approval.taskId && (
              <>
                {" · "}
                <Link href={`/tasks/${encodeURIComponent(approval.taskId)}`}>task</Link>
              </>
            )}
          </p>
        )}
      </div>
    </section>
  );
}

function Decide({ approval, onMode }: { approval: Approval; onMode: (mode: Mode) => void }): ReactNode {
  const { mayWrite } = useAccess();
  const decision = useDecision(approval);
  return (
    <>
      <div className="row">
        <Button kind="primary" disabled={!mayWrite || decision.isPending} onClick={() => decision.mutate({ decision: "allow" })}>
          Allow
        </Button>
        <Button disabled={!mayWrite || decision.isPending} onClick={() => onMode("edit")}>
          Edit and allow
        </Button>
        <Button kind="danger" disabled={!mayWrite || decision.isPending} onClick={() => onMode("deny")}>
          Deny
        </Button>
      </div>
      {decision.error && <ErrorNotice error={decision.error} />}
    </>
  );
}

function Deny({ approval, onEnd }: { approval: Approval; onEnd: () => void }): ReactNode {
  const decision = useDecision(approval);
  const [reason, setReason] = useState("");
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        decision.mutate({ decision: "deny", ...(reason.trim() ? { reason: reason.trim() } : {}) });
      }}
    >
      <label className="field">
        <span className="label">Why not?</span>
        <input className="input" autoFocus value={reason} onChange={(event) => setReason(event.target.value)} />
        <span className="hint">The model reads it, and can do something else. It may stay empty.</span>
      </label>
      <div className="row">
        <Button type="submit" kind="danger" disabled={decision.isPending}>
          Deny
        </Button>
        <Button kind="quiet" onClick={onEnd}>
          Back
        </Button>
      </div>
      {decision.error && <ErrorNotice error={decision.error} />}
    </form>
  );
}

function EditedCall({ approval, onEnd }: { approval: Approval; onEnd: () => void }): ReactNode {
  const decision = useDecision(approval);
  const [input, setInput] = useState<unknown>(() => readArguments(approval));
  const [problem, setProblem] = useState("");
  const tool = useQuery({
    queryKey: ["tools", approval.tool],
    queryFn: () => take(api.GET("/api/tools/{name}", { params: { path: { name: approval.tool } } })),
  });
  const allow = (): void => {
    if (!problem) decision.mutate({ decision: "allow", input: input as Record<string, unknown> });
  };
  if (tool.isPending) return <Loading what="Its schema" />;
  return (
    <div className="stack">
      <ArgumentsInput
        id={`edit-${approval.id}`}
        schema={tool.data?.inputSchema ?? {}}
        value={input}
        onChange={(typed, why) => {
          setInput(typed);
          setProblem(why);
        }}
        onSubmit={allow}
      />
      <div className="row">
        <Button kind="primary" disabled={problem !== "" || decision.isPending} onClick={allow}>
          Allow with these arguments
        </Button>
        <Button kind="quiet" onClick={onEnd}>
          Back
        </Button>
      </div>
      {decision.error && <ErrorNotice error={decision.error} />}
    </div>
  );
}

/** The arguments with every number as it was sent: the text that is shown has them, where a value of JavaScript has not. */
function readArguments({ input, shown }: Approval): unknown {
  try {
    const exact = parseExactly(shown.input);
    if (JSON.stringify(simplify(exact).value) === JSON.stringify(input)) return exact;
  } catch {
    // It was cut, or written for people.
  }
  return input;
}

function useDecision(approval: Approval) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Shape<"ApprovalRequest">) =>
      take(api.POST("/api/approvals/{id}", { params: { path: { id: approval.id } }, body })),
    onSettled: (_, error) => {
      if (!error || (error instanceof Problem && error.status === 409)) void queries.invalidateQueries({ queryKey: ["approvals"] });
    },
  });
}

function TimeLeft({ until }: { until: number }): ReactNode {
  const left = until - useNow(1000) / 1000;
  if (left <= 0) return <span className="soft">the time is over: denied</span>;
  return (
    <span className={left < 30 ? "status warn" : "soft"} title={formatAge(-left)}>
      denied in {formatDuration(left * 1000)}
    </span>
  );
}
