import { useSearchParams } from "wouter";

/** What a list is filtered by, in its address: a link to it shows the same. An empty value takes its part out. */
export function useFilter(): [URLSearchParams, (key: string, value: string) => void] {
  const [filter, setFilter] = useSearchParams();
  const change = (key: string, value: string): void =>
    setFilter(
      (old) => {
        const next = new URLSearchParams(old);
        if (value) next.set(key, value);
        else next.delete(key);
        return next;
      },
      { replace: true },
    );
  return [filter, change];
}
