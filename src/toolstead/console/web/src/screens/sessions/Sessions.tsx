import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { useAccess } from "../../api/access";
import { api, take } from "../../api/client";
import { formatDuration } from "../../ui/format";
import { Age, Empty, ErrorNotice, Facts, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";

export default function Sessions(): ReactNode {
  const { mayWrite, known, login } = useAccess();
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["sessions"],
    queryFn: () => take(api.GET("/api/sessions")),
    enabled: mayWrite,
    refetchInterval: 10_000,
  });
  return (
    <div className="page">
      <PageHead title="Sessions" about="Open connections to runtimes. A warm one answers the next message of its conversation at once." />
      {known && !mayWrite ? (
        <Empty title="Only a person who has logged in sees the sessions"><p>{login}</p></Empty>
      ) : error ? (
        <ErrorNotice error={error} retry={() => void refetch()} />
      ) : isPending ? (
        <Loading what="The sessions" />
      ) : (
        <>
          <Facts
            of={[
              ["Live", String(data.counts.live)],
              ["Idle", String(data.counts.idle)],
              ["Found warm", `${data.counts.hits} of ${data.counts.hits + data.counts.misses}`],
              ["Rebuilt", String(data.counts.rebuilt)],
              ["Closed for room", String(data.counts.evicted)],
            ]}
          />
          {data.sessions.length === 0 ? (
            <Empty title="No session is open"><p>The first message of a conversation opens one.</p></Empty>
          ) : (
            <div className="table-scroll">
              <table className="table">
                <thead>
                  <tr>
                    <th>State</th><th>Conversation</th><th>Agent</th><th>Runtime</th><th>Model</th><th>Opened</th><th className="number">Idle for</th>
                  </tr>
                </thead>
                <tbody>
                  {data.sessions.map((session) => (
                    <tr key={session.key}>
                      <td><Status of={session.state} /></td>
                      <td>{session.threadId ? <Link href={`/chat/${encodeURIComponent(session.threadId)}`}>{session.threadId}</Link> : session.key}</td>
                      <td>{session.agent}</td>
                      <td>{session.runtime}{session.ownsProcess && <span className="soft"> (a process)</span>}</td>
                      <td>{session.model}</td>
                      <td><Age at={session.startedAt} /></td>
                      <td className="number">{session.state === "idle" ? formatDuration((session.idleSeconds ?? 0) * 1000) : ""}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </>
      )}
    </div>
  );
}
