"""Child processes, with one owner: everything that Toolstead starts is started, watched and ended here.

`owner` keeps the processes and pipes of one piece of work, sees their ends and ends them together. On top of it:
`program_run` (run to the end, bounded output), `piped` (a program that is spoken to for a
while) and `watchdog` (ends programs when our own process was killed). `mark` finds what left its process group.

Below: the operating system. Above: `tools` (shell pipelines, git), `adapters` (Claude Code, Codex).
"""
