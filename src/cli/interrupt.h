// Handles SIGINT depending on its sender. A shell without job control starts commands before '&' with SIGINT
// ignored, so that Ctrl-C, which the terminal sends to every process of the group, ends the script but not
// that command. This program ignores such a Ctrl-C too, but obeys a signal that a process sends, for example
// with `kill -INT`. Not thread-safe.
#pragma once

namespace plimsoll::cli {

// Must be called once at the start of main. If SIGINT was ignored at the start, a SIGINT sent by a process
// ends this process from now on.
void obey_sent_interrupts();
// Sets the action of SIGINT; null means that it ends the process. `handler` may do only what is safe in a
// signal handler.
void on_interrupt(void (*handler)(int signal));
// Must be called in a child between fork and exec: ignores SIGINT again if it was ignored at the start.
void ignore_interrupts_as_before();

}  // namespace plimsoll::cli
