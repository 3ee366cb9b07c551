import { useCallback, useEffect, useRef, useState } from "react";

import { readLog } from "../../api/log";
import type { LiveEvent } from "../../live/connection";
import { useEvents, useGaps } from "../../live/LiveProvider";
import { EMPTY, TranscriptBuilder, type Transcript } from "./transcript";

const PAGE = 400;

export interface LoadedTranscript {
  transcript: Transcript;
  isLoading: boolean;
  error: unknown;
  /** Whether there are older events, and how to read them. */
  hasOlder: boolean;
  loadOlder: () => void;
  isLoadingOlder: boolean;
  reload: () => void;
}

/** Keeps an event for when older ones are read. Pieces of a text become one, as the server joins them: a text has thousands. */
function keep(stored: LiveEvent[], event: LiveEvent): void {
  const last = stored.at(-1);
  const isWhole = event.type === "message" && event.data["role"] === "assistant" && last?.type === "message.delta" && event.runId === last.runId;
  const joins = last?.type === "message.delta" && event.type === last.type && event.runId === last.runId && event.data["attempt"] === last.data["attempt"];
  if (joins) stored[stored.length - 1] = { ...event, data: { ...event.data, text: `${String(last.data["text"])}${String(event.data["text"])}` } };
  else if (isWhole) stored[stored.length - 1] = event; // it has the text of its pieces
  else stored.push(event);
}

/** The transcript of a thread: its last page at once, older ones when they are asked for, and what happens as it happens. */
export function useTranscript(thread: string): LoadedTranscript {
  const [transcript, setTranscript] = useState<Transcript>(EMPTY);
  const [state, setState] = useState<{ loading: boolean; older: boolean; error: unknown }>({ loading: true, older: false, error: null });
  const stored = useRef<LiveEvent[]>([]);
  const before = useRef<string | undefined>(undefined);
  const builder = useRef(new TranscriptBuilder());
  const early = useRef<LiveEvent[] | null>([]);
  const [hasOlder, setHasOlder] = useState(false);
  const [turn, setTurn] = useState(0);

  const readPage = useCallback(
    (older: string | undefined, signal?: AbortSignal) =>
      readLog({ thread, limit: String(PAGE), ...(older ? { before: older } : {}) }, signal),
    [thread],
  );

  useEffect(() => {
    const abort = new AbortController();
    early.current = [];
    setState({ loading: true, older: false, error: null });
    readPage(undefined, abort.signal).then(
      (page) => {
        if (abort.signal.aborted) return;
        stored.current = [...page.events];
        before.current = page.before;
        setHasOlder(page.before !== undefined);
        builder.current = new TranscriptBuilder(stored.current);
        const waiting = early.current ?? [];
        early.current = null;
        const end = page.events.at(-1)?.id ?? "";
        for (const event of waiting) if (event.id && event.id > end) keep(stored.current, event);
        setTranscript(builder.current.add(waiting));
        setState({ loading: false, older: false, error: null });
      },
      (error: unknown) => {
        if (!abort.signal.aborted) setState({ loading: false, older: false, error });
      },
    );
    return () => abort.abort();
  }, [readPage, turn]);

  useEvents((events) => {
    const ours = events.filter((event) => event.threadId === thread);
    if (ours.length === 0) return;
    if (early.current) {
      early.current.push(...ours);
      return;
    }
    for (const event of ours) if (event.id) keep(stored.current, event);
    setTranscript(builder.current.add(ours));
  });

  useGaps(() => setTurn((one) => one + 1));

  const loadOlder = useCallback(() => {
    const older = before.current;
    if (!older) return;
    before.current = undefined;
    setState((one) => ({ ...one, older: true }));
    readPage(older).then(
      (page) => {
        stored.current = [...page.events, ...stored.current];
        before.current = page.before;
        setHasOlder(page.before !== undefined);
        builder.current = new TranscriptBuilder(stored.current);
        setTranscript(builder.current.add([]));
        setState((one) => ({ ...one, older: false }));
      },
      (error: unknown) => {
        before.current = older;
        setState((one) => ({ ...one, older: false, error }));
      },
    );
  }, [readPage]);

  return {
    transcript,
    isLoading: state.loading,
    error: state.error,
    hasOlder,
    loadOlder,
    isLoadingOlder: state.older,
    reload: () => setTurn((one) => one + 1),
  };
}
