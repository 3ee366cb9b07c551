import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";

import { Button, Loading } from "../../ui/parts";
import { TranscriptItem } from "./TranscriptItem";
import type { Item } from "./transcript";
import type { LoadedTranscript } from "./useTranscript";

const NEAR_END = 80;
const LINE = 18;
const LINE_LENGTH = 100;

/** About how high an entry will be, rather less than more: the nearer it is, the less is moved when it is measured. */
function estimateHeight(item: Item | undefined): number {
  if (item?.kind !== "message" && item?.kind !== "stream") return 50;
  const lines = item.text.split("\n").reduce((sum, line) => sum + Math.max(Math.ceil(line.length / LINE_LENGTH), 0.4), 0);
  return 40 + lines * LINE;
}

/** The transcript; only what is on the screen is in the page. It stays at the end while one is there, and stays put otherwise. */
export function TranscriptView({ loaded }: { loaded: LoadedTranscript }): ReactNode {
  const { items } = loaded.transcript;
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const seen = useRef({ top: 0, height: 0 });
  const [showsEnd, setShowsEnd] = useState(true);
  const firstKey = items[0]?.key;
  const lastKey = items.at(-1)?.key;
  const latest = useRef(items);
  latest.current = items;
  // Another function makes the list place all its rows anew: one for each frame of a text that grows would be too many.
  const keyOf = useCallback((index: number) => latest.current[index]?.key ?? index, [items.length, firstKey, lastKey]);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => estimateHeight(latest.current[index]),
    getItemKey: keyOf,
    overscan: 6,
    paddingStart: 12,
    paddingEnd: 12,
  });
  const size = rows.getTotalSize();

  useLayoutEffect(() => {
    const view = box.current;
    if (view && isAtEnd.current) view.scrollTop = view.scrollHeight;
  }, [size, items]);

  // Older items come in above: what one reads stays where it is.
  const lastFirst = useRef({ key: firstKey, size });
  useLayoutEffect(() => {
    const view = box.current;
    if (view && lastFirst.current.key !== undefined && lastFirst.current.key !== firstKey && !isAtEnd.current) {
      view.scrollTop += size - lastFirst.current.size;
    }
    lastFirst.current = { key: firstKey, size };
  }, [firstKey, size]);

  useEffect(() => {
    const view = box.current;
    if (!view) return;
    const onScroll = (): void => {
      const { scrollTop: top, scrollHeight: height } = view;
      // Only who moves up leaves the end: an entry that turns out higher or lower than it was thought does not.
      const movesUp = top < seen.current.top - 1 && height >= seen.current.height;
      const isNear = height - top - view.clientHeight < NEAR_END;
      if (isAtEnd.current && !isNear && !movesUp) view.scrollTop = height;
      isAtEnd.current = isNear || (isAtEnd.current && !movesUp);
      seen.current = { top: view.scrollTop, height };
      setShowsEnd(isAtEnd.current);
      if (view.scrollTop < 400 && loaded.hasOlder && !loaded.isLoadingOlder) loaded.loadOlder();
    };
    view.addEventListener("scroll", onScroll, { passive: true });
    return () => view.removeEventListener("scroll", onScroll);
  }, [loaded]);

  return (
    <div className="transcript-place">
      <div className="transcript" ref={box} tabIndex={0} role="log" aria-label="Transcript" aria-live="off">
        {loaded.isLoadingOlder && <Loading what="Older messages" />}
        {loaded.hasOlder && !loaded.isLoadingOlder && (
          <Button small onClick={loaded.loadOlder}>
            Older messages
          </Button>
        )}
        <div className="transcript-items" style={{ height: size }}>
          {rows.getVirtualItems().map((row) => {
            const item = items[row.index];
            return item ? (
              <div key={row.key} data-index={row.index} ref={rows.measureElement} className="transcript-row" style={{ transform: `translateY(${row.start}px)` }}>
                <TranscriptItem item={item} />
              </div>
            ) : null;
          })}
        </div>
      </div>
      {!showsEnd && (
        <Button
          small
          className="to-end"
          icon="down"
          onClick={() => {
            isAtEnd.current = true;
            if (box.current) box.current.scrollTop = box.current.scrollHeight;
          }}
        >
          To the end
        </Button>
      )}
    </div>
  );
}
