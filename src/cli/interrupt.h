// SIGINT, and who sent it. A shell without job control starts what stands before '&' with SIGINT ignored, so
// that Ctrl-C, which its terminal sends to every process of the group, ends the script and leaves that work
// alone. Here such a Ctrl-C is not obeyed either; what a process sends, as `kill -INT` does, is. Not
// thread-safe.
#pragma once

namespace plimsoll::cli {

// Once, at the start of main: where SIGINT came in ignored, one that a process sends ends this one from here
// on as it ends any other.
void obey_sent_interrupts();
// What SIGINT does from here on; null: it ends the process. `handler` does only what is safe in a signal
// handler.
void on_interrupt(void (*handler)(int signal));
// In a child between fork and exec: SIGINT is ignored again where it came in so.
void ignore_interrupts_as_before();

}  // namespace plimsoll::cli
