import { useInfiniteQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link, useRoute } from "wouter";

import { api, take, type Shape } from "../../api/client";
import { Icon } from "../../ui/icons";
import { Age, Button, ErrorNotice, Loading } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { Conversation } from "./Conversation";
import { NewConversation } from "./NewConversation";
import "./chat.css";

const PAGE = 40;

export default function Chat(): ReactNode {
  const [, params] = useRoute("/chat/:thread");
  const thread = params ? decodeURIComponent(params.thread) : "";
  const [isListOpen, setListOpen] = useState(false);
  return (
    <div className="chat">
      <ThreadList current={thread} isOpen={isListOpen} onClose={() => setListOpen(false)} />
      <div className="chat-main">
        <div className="chat-narrow row">
          <Button small icon="menu" aria-expanded={isListOpen} onClick={() => setListOpen(!isListOpen)}>
            Conversations
          </Button>
        </div>
        {thread ? <Conversation key={thread} thread={thread} /> : <NewConversation />}
      </div>
    </div>
  );
}

function ThreadList({ current, isOpen, onClose }: { current: string; isOpen: boolean; onClose: () => void }): ReactNode {
  const { data, error, isPending, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ["threads", "own"],
    queryFn: ({ pageParam }) =>
      take(api.GET("/api/threads", { params: { query: { own: "true", roots: "true", limit: String(PAGE), ...(pageParam ? { before: pageParam } : {}) } } })),
    initialPageParam: "",
    getNextPageParam: (last) => (last.threads.length === PAGE ? last.threads.at(-1)?.id : undefined),
  });
  const threads = data?.pages.flatMap((page) => page.threads) ?? [];
  return (
    <nav className={isOpen ? "threads open" : "threads"} aria-label="Conversations">
      <Link href="/chat" className="button" onClick={onClose}>
        <Icon name="plus" /> New conversation
      </Link>
      {isPending && <Loading what="Conversations" />}
      {error && <ErrorNotice error={error} />}
      {threads.length === 0 && !isPending && !error && <p className="soft small">There is none yet.</p>}
      <ul className="thread-list">
        {threads.map((thread) => (
          <li key={thread.id}>
            <Link
              href={`/chat/${encodeURIComponent(thread.id)}`}
              aria-current={thread.id === current ? "page" : undefined}
              className="thread"
              onClick={onClose}
            >
              <span className="truncate">{thread.title || thread.id}</span>
              <ThreadState thread={thread} />
            </Link>
          </li>
        ))}
      </ul>
      {hasNextPage && (
        <Button small disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          Older ones
        </Button>
      )}
    </nav>
  );
}

function ThreadState({ thread }: { thread: Shape<"ListedThread"> }): ReactNode {
  const { status } = thread;
  if (status && status !== "completed") return <Status of={status} />;
  return (
    <span className="soft small">
      <Age at={thread.usedAt} />
    </span>
  );
}
