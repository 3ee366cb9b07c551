"""The style sheet of `/docs`: one column of routes, one of text, light or dark as the reader's system is."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf7; --card: #ffffff; --ink: #1d2328; --soft: #5c6670; --line: #e4e0d8; --code: #f4f1ea;
  --link: #0b5c8a; --get: #1f6f5c; --post: #8a4b0b; --delete: #9b2c2c; --accent: #c8702a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181b; --card: #1b2024; --ink: #e6e3dc; --soft: #9aa4ac; --line: #2e353b; --code: #11151a;
    --link: #7cc0e8; --get: #63c7ab; --post: #e6a45c; --delete: #ef8a8a; --accent: #e08a45;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1.5rem; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre, .path {
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .875em;
}
code { background: var(--code); border-radius: 4px; padding: .1em .35em; }
pre {
  background: var(--code); border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0 0; padding: .8rem 1rem;
  overflow-x: auto; line-height: 1.5;
}
pre code { background: none; padding: 0; font-size: 1em; }
pre + pre { border-top-style: dashed; color: var(--soft); }
.frame { display: grid; grid-template-columns: 18.5rem minmax(0, 1fr); max-width: 78rem; margin: 0 auto; }
nav {
  position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 2rem 1.25rem 2rem 1.5rem;
  border-right: 1px solid var(--line); font-size: .875rem;
}
nav .brand { display: flex; align-items: baseline; gap: .5rem; font-size: 1.2rem; font-weight: 650; color: var(--ink); }
nav .brand small { color: var(--soft); font-weight: 400; font-size: .8rem; }
nav h2 {
  margin: 1.6rem 0 .4rem; color: var(--soft); font-size: .72rem; font-weight: 600; letter-spacing: .08em;
  text-transform: uppercase;
}
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: flex; gap: .5rem; padding: .16rem 0; color: var(--ink); overflow-wrap: anywhere; }
nav li .path { font-size: .78rem; padding-top: .06rem; }
nav .verb { flex: none; width: 3.3rem; font-size: .66rem; letter-spacing: .04em; padding-top: .17rem; }
main { padding: 2.4rem 2.5rem 5rem; min-width: 0; overflow-wrap: anywhere; }
h1 { margin: 0 0 .6rem; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.01em; }
main > p { max-width: 46rem; margin: .5rem 0; color: var(--soft); }
main > h2 { margin: 3rem 0 1rem; font-size: 1.3rem; }
article {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  margin: 1.5rem 0; padding: 1.4rem 1.6rem 1.6rem;
}
article > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .3rem .8rem; }
article > header .path { font-size: 1rem; font-weight: 600; overflow-wrap: anywhere; }
article > header h3 { margin: 0; font-size: 1rem; font-weight: 500; color: var(--soft); }
article p { margin: .6rem 0 0; max-width: 48rem; }
article h4 {
  margin: 1.4rem 0 .3rem; color: var(--soft); font-size: .72rem; font-weight: 600; letter-spacing: .08em;
  text-transform: uppercase;
}
.verb { font-weight: 700; }
.badge {
  border: 1px solid currentColor; border-radius: 6px; padding: .12rem .5rem; font-size: .75rem; letter-spacing: .05em;
}
.get { color: var(--get); } .post, .patch { color: var(--post); } .delete { color: var(--delete); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td { border-top: 1px solid var(--line); padding: .45rem .9rem .45rem 0; vertical-align: top; }
tr:first-child td { border-top: 0; }
td:first-child { white-space: nowrap; width: 1%; }
td.kind { color: var(--soft); min-width: 6.5rem; max-width: 15rem; }
.must { color: var(--accent); }
td table { margin: .3rem 0 0; }
.status { font-weight: 650; font-variant-numeric: tabular-nums; }
dl { margin: 0; }
dt { margin-top: 1rem; font-weight: 600; }
dt:target, article:target { outline: 2px solid var(--accent); outline-offset: 6px; border-radius: 8px; }
dd { margin: .1rem 0 0; color: var(--soft); }
@media (max-width: 56rem) {
  .frame { display: block; }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); }
  main { padding: 1.5rem 1rem 3rem; }
  article { padding: 1.1rem 1rem; }
}
"""
