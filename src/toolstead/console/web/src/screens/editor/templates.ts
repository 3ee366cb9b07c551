import type { IconName } from "../../ui/icons";

interface Template {
  id: string;
  name: string;
  icon: IconName;
  about: string;
  text: string;
}

const write = (tool: object): string => `${JSON.stringify({ name: "my-tools", tools: [tool] }, null, 2)}\n`;

/** What a new tool file begins with: each works as it stands. */
export const TEMPLATES: readonly Template[] = [
  {
    id: "command",
    name: "A command",
    icon: "play",
    about: "Runs a program with the arguments of the call. No shell is started, so nothing in a value is ever a command.",
    text: write({
      name: "find-text",
      description: "Find a text in the files of this project. Answers with path, line number and line.",
      inputSchema: {
        type: "object",
        properties: {
          text: { type: "string", description: "What to look for." },
          folder: { type: "string", description: "Where to look.", default: "." },
        },
        required: ["text"],
      },
      handler: { type: "shell", command: "grep -rnF -- '{{text}}' {{folder}}", okStatus: [0, 1] },
    }),
  },
  {
    id: "request",
    name: "A request",
    icon: "external",
    about: "Asks a web service. Addresses of this machine and of private networks are refused, unless they are allowed by name.",
    text: write({
      name: "get-package",
      description: "Get what a registry knows about a package, as JSON.",
      inputSchema: {
        type: "object",
        properties: { package: { type: "string", description: "The name of the package." } },
        required: ["package"],
      },
      handler: { type: "http", method: "GET", url: "https://example.com/packages/{{package}}" },
    }),
  },
  {
    id: "folder",
    name: "A folder",
    icon: "docs",
    about: "Reads the files of one folder, and none outside of it.",
    text: write({
      name: "read-docs",
      description: "Read a page of this project's documentation.",
      inputSchema: {
        type: "object",
        properties: { path: { type: "string", description: "The page, such as start.md." } },
        required: ["path"],
      },
      handler: { type: "file-read", basePath: "docs" },
    }),
  },
];
