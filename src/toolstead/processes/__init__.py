"""Child processes, with one owner: every program that Toolstead starts is started, watched and ended here.

| module                    | what it is                                                                              |
|---------------------------|-----------------------------------------------------------------------------------------|
| `owner`                   | starts the processes of one piece of work, sees their ends, kills and reaps them        |
| `pipes`, `capture`        | our ends of their pipes, and a bound on what is kept of their output                    |
| `mark`                    | finds and kills what left its process group                                             |
| `environment`             | the part of the user's environment that commands see                                    |
| `program_run`             | a program that is run to its end, with bounded output                                   |
| `piped`                   | a long-running program with pipes                                                       |
| `isolated`                | a function of ours in processes of its own, for what cannot be interrupted              |
| `watchdog`                | a helper process that kills programs when our own process was killed                    |
| `line_progress`           | lines of output as progress of a call, bounded                                          |

The one exception is the editor of `toolstead tools new`, which shares the terminal.
"""
