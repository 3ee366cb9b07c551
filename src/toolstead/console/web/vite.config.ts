import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

// `npm run dev` shows the page with reload; it asks the server of `toolstead serve`.
const server = process.env["TOOLSTEAD_URL"] ?? "http://127.0.0.1:8420";

export default defineConfig({
  plugins: [react()],
  base: "/",
  resolve: {
    // The form library's test helper names ajv, which the page's policy forbids; nothing of it is used.
    alias: { "@rjsf/validator-ajv8": fileURLToPath(new URL("src/ui/form/validator.ts", import.meta.url)) },
  },
  build: {
    outDir: "dist",
    assetsInlineLimit: 0, // the policy of the page takes no data: scripts, and files cache better
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true } } },
});
