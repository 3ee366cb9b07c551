import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { useAccess } from "../../api/access";
import { api, take } from "../../api/client";
import { count, formatSize } from "../../ui/format";
import { Button, Card, Diff, Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { Dialog } from "../../ui/Dialog";
import { Status } from "../../ui/Status";
import { say } from "../../ui/toast";

const WORDS: Readonly<Record<string, readonly [string, string]>> = {
  nothing: ["idle", "This project brings no files of its own: there is nothing to approve."],
  waiting: ["waiting", "This project brings files that are not approved here: they are left out until you approve them."],
  trusted: ["completed", "You approved these files, and exactly these bytes are used."],
  changed: ["waiting", "Files changed since you approved them: the approved ones are used until you approve the new ones."],
  refused: ["failed", "These files cannot be approved as they are."],
};

export default function Trust(): ReactNode {
  const { mayWrite, known, login } = useAccess();
  const queries = useQueryClient();
  const [asks, setAsks] = useState(false);
  // Not on a timer: what a person approves is what stands here while they read; the server refuses anything else.
  const { data, error, isPending, refetch } = useQuery({ queryKey: ["trust"], queryFn: () => take(api.GET("/api/trust")), enabled: mayWrite });
  const decide = useMutation({
    mutationFn: (decision: "approve" | "revoke") => take(api.POST("/api/trust", { body: { decision, ...(data?.digest ? { digest: data.digest } : {}) } })),
    onSuccess: (_, decision) => say(decision === "approve" ? "Approved: its tools and agents are read now." : "Not trusted any more."),
    onSettled: () => {
      setAsks(false);
      void queries.invalidateQueries({ queryKey: ["trust"] });
      void queries.invalidateQueries({ queryKey: ["tools"] });
      void queries.invalidateQueries({ queryKey: ["agents"] });
    },
  });
  if (known && !mayWrite) {
    return (
      <div className="page">
        <PageHead title="Trust" />
        <Empty title="Only a person who has logged in may approve a project"><p>{login}</p></Empty>
      </div>
    );
  }
  if (isPending) return <div className="page"><Loading what="What the project brings" /></div>;
  if (error) return <div className="page"><PageHead title="Trust" /><ErrorNotice error={error} retry={() => void refetch()} /></div>;
  const [state, about] = WORDS[data.state] ?? ["unknown", data.state];
  const canApprove = data.state === "waiting" || data.state === "changed";
  return (
    <div className="page">
      <PageHead
        title="Trust"
        about={<span className="mono">{data.project}</span>}
        actions={
          <>
            {canApprove && <Button kind="primary" disabled={decide.isPending} onClick={() => decide.mutate("approve")}>Approve what is shown</Button>}
            {(data.state === "trusted" || data.state === "changed") && <Button kind="danger" onClick={() => setAsks(true)}>Revoke</Button>}
          </>
        }
      />
      <p className="row"><Status of={state} word={data.state} /> {about}</p>
      {decide.error && <ErrorNotice error={decide.error} />}
      {data.refused.length > 0 && (
        <Card title="Cannot be approved">
          <ul>{data.refused.map((reason, index) => <li key={index}>{reason}</li>)}</ul>
        </Card>
      )}
      {data.shown.length > 0 && (
        <section className="stack">
          <h2>{data.state === "changed" ? "What changed" : "What would run"}</h2>
          <Diff lines={data.shown} />
        </section>
      )}
      {data.files.length > 0 && (
        <section className="stack">
          <h2>{count(data.files.length, "file")}</h2>
          <ul className="list">
            {data.files.map((file) => (
              <li key={file.path} className="list-row"><span className="mono grow">{file.path}</span><span className="soft number">{formatSize(file.size)}</span></li>
            ))}
          </ul>
        </section>
      )}
      <Dialog
        open={asks}
        onClose={() => setAsks(false)}
        title="Revoke the approval of this project?"
        actions={
          <>
            <Button onClick={() => setAsks(false)}>Keep it</Button>
            <Button kind="danger" onClick={() => decide.mutate("revoke")}>Revoke</Button>
          </>
        }
      >
        <p>Its tools, agents and plugins are left out at once; calls under way end.</p>
      </Dialog>
    </div>
  );
}
