import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { useAccess } from "../../api/access";
import { api, take } from "../../api/client";
import { count } from "../../ui/format";
import { Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { ApprovalCard } from "./ApprovalCard";
import { Decided } from "./Decided";

export default function Approvals(): ReactNode {
  const { mayWrite, known, login } = useAccess();
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["approvals"],
    queryFn: () => take(api.GET("/api/approvals")),
    enabled: mayWrite,
  });
  const waiting = data?.approvals.filter((approval) => !approval.decision) ?? [];
  return (
    <div className="page">
      <PageHead
        title="Approvals"
        about={data ? (waiting.length ? `${count(waiting.length, "call")} wait for a person` : "Calls that wait for a person are shown here as they come.") : undefined}
      />
      {known && !mayWrite ? (
        <Empty title="Only a person who has logged in sees what waits">
          <p>{login}</p>
        </Empty>
      ) : error ? (
        <ErrorNotice error={error} retry={() => void refetch()} />
      ) : isPending ? (
        <Loading what="The approvals" />
      ) : waiting.length === 0 ? (
        <Empty title="Nothing waits">
          <p>A plugin asks for approvals: its gate answers a call with a question to a person.</p>
        </Empty>
      ) : (
        waiting.map((approval) => <ApprovalCard key={approval.id} approval={approval} />)
      )}
      <Decided />
    </div>
  );
}
