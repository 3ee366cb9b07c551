import { useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useRef, useState, useSyncExternalStore, type ReactNode } from "react";

import { LiveConnection, type LiveEvent, type LiveStatus } from "./connection";
import { keysChangedBy } from "./queryKeys";

const Context = createContext<LiveConnection | null>(null);
const REFRESH_MS = 400;
const SLOWEST_MS = 10_000;
const SHARE = 4; // at most a quarter of the time is spent on reading again what events have changed

/** Opens the live connection, and marks as stale whatever its events changed. */
export function LiveProvider({ children }: { children: ReactNode }): ReactNode {
  const queries = useQueryClient();
  const [connection] = useState(() => new LiveConnection());
  useEffect(() => {
    const waiting = new Map<string, readonly unknown[]>();
    let timer = 0;
    let stopped = false;
    let busy = false;
    let earliest = 0;
    const wait = (): void => {
      if (waiting.size === 0 || timer !== 0 || busy || stopped) return;
      timer = window.setTimeout(() => void refresh(), Math.max(REFRESH_MS, earliest - performance.now()));
    };
    const refresh = async (): Promise<void> => {
      timer = 0;
      busy = true;
      const begin = performance.now();
      const stale = [...waiting.values()].map((queryKey) => queries.invalidateQueries({ queryKey }));
      waiting.clear();
      await Promise.race([Promise.allSettled(stale), new Promise((resolve) => window.setTimeout(resolve, SLOWEST_MS))]);
      busy = false;
      earliest = performance.now() + (performance.now() - begin) * (SHARE - 1);
      wait();
    };
    const unsubscribe = connection.subscribe((events) => {
      for (const event of events) for (const key of keysChangedBy(event)) waiting.set(key.join("\0"), key);
      wait();
    });
    // The rights first: a server that was started anew has another private token, and what it would refuse is not asked.
    const refreshAll = async (): Promise<void> => {
      await queries.invalidateQueries({ queryKey: ["access"] });
      await new Promise((resolve) => window.setTimeout(resolve)); // the screens have taken the rights in
      await queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "access" });
    };
    let wasAway = false;
    const unwatchStatus = connection.watchStatus(() => {
      const { state } = connection.status;
      if (state === "live" && wasAway) void refreshAll(); // what no event tells may be another: tools, plugins, settings
      wasAway = state === "waiting" || (wasAway && state !== "live");
    });
    const unwatch = connection.watchGaps(() => void refreshAll());
    connection.start();
    return () => {
      stopped = true;
      window.clearTimeout(timer);
      unsubscribe();
      unwatch();
      unwatchStatus();
      connection.stop();
    };
  }, [connection, queries]);
  return <Context.Provider value={connection}>{children}</Context.Provider>;
}

export function useConnection(): LiveConnection {
  const connection = useContext(Context);
  if (connection === null) throw new Error("there is no LiveProvider above");
  return connection;
}

export function useLiveStatus(): LiveStatus {
  const connection = useConnection();
  return useSyncExternalStore(connection.watchStatus, () => connection.status);
}

/** Be given the events as they come, a batch for each frame; `take` may be another function at every render. */
export function useEvents(take: (events: readonly LiveEvent[]) => void): void {
  const connection = useConnection();
  const latest = useRef(take);
  useEffect(() => {
    latest.current = take;
  });
  useEffect(() => connection.subscribe((events) => latest.current(events)), [connection]);
}

/** Called when events were left out: what was built from them must be read again. */
export function useGaps(reload: () => void): void {
  const connection = useConnection();
  const latest = useRef(reload);
  useEffect(() => {
    latest.current = reload;
  });
  useEffect(() => connection.watchGaps(() => latest.current()), [connection]);
}
