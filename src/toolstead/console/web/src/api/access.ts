import { useQuery } from "@tanstack/react-query";

import { api, take } from "./client";

/** Whether this page may change things, and how to get that right where it may not. */
export function useAccess(): { mayWrite: boolean; known: boolean; login: string } {
  const { data } = useQuery({
    queryKey: ["access"],
    queryFn: () => take(api.GET("/api/access")),
    staleTime: 60_000,
    refetchOnWindowFocus: "always", // one logs in in another tab, and comes back
  });
  return { mayWrite: data?.private ?? false, known: data !== undefined, login: data?.login ?? "" };
}
