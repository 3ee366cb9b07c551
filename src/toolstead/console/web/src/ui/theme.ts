/** Light or dark: as the system has it, until a person chooses. */
export type Theme = "system" | "light" | "dark";

const KEY = "toolstead.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

export function readTheme(): Theme {
  const kept = window.localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function chooseTheme(theme: Theme): void {
  if (theme === "system") window.localStorage.removeItem(KEY);
  else window.localStorage.setItem(KEY, theme);
  showTheme();
}

export function startTheme(): void {
  dark.addEventListener("change", showTheme);
  showTheme();
}

function showTheme(): void {
  const theme = readTheme();
  document.documentElement.dataset["theme"] = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
}
