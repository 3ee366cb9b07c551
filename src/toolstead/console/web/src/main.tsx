import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { App } from "./App";
import { Problem } from "./api/client";
import { LiveProvider } from "./live/LiveProvider";
import "./styles/base.css";
import { startTheme } from "./ui/theme";

startTheme();

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      // Events say when something changed; only what the network lost is asked for again.
      refetchOnWindowFocus: false,
      retry: (count, error) => count < 2 && !(error instanceof Problem && error.status < 500),
    },
  },
});

// What a boundary catches it shows; the one of the screens also writes it to the console.
createRoot(document.getElementById("root") as HTMLElement, { onCaughtError: () => undefined }).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <LiveProvider>
        <App />
      </LiveProvider>
    </QueryClientProvider>
  </StrictMode>,
);
