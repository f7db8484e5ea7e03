// Handles SIGINT depending on its sender. A shell without job control starts a command in the background
// (`command &`) with SIGINT ignored. Ctrl-C, which the terminal sends to the whole group of processes, then ends
// the script but not the command. This program ignores such a Ctrl-C too, but obeys a SIGINT that a process
// sends, for example with `kill -INT`. Not thread-safe.
#pragma once

namespace plimsoll::cli {

// Must be called once at the start of main, before other threads exist. From then on, SIGINT, SIGTERM and SIGHUP are delivered to a thread
// that does nothing else, because the threads that exist later inherit the mask of this one, which blocks them. A handler must not run on
// the stack of a thread that computes: while oneDNN multiplies fp32 matrices with AVX2, the stack pointer of the thread points into a block
// of the heap, and a signal handler would overwrite the memory before this block.
void keep_signals_from_other_threads();
// Must be called once at the start of main. If SIGINT was ignored at the start, a SIGINT sent by a process
// ends this process from now on.
void obey_sent_interrupts();
// Returns true if SIGINT was ignored when the program started. Then only a SIGINT that another process sends is obeyed.
bool obeys_only_sent_interrupts();
// Sets the action of SIGINT; null means that it ends the process. `handler` may do only what is safe in a
// signal handler.
void on_interrupt(void (*handler)(int signal));
// While this object exists, a signal that catch_signals() catches calls stop(target), which may do only what is safe in a signal handler,
// and writes the notice to standard error. A second SIGINT or SIGTERM ends the process with 128 + signal. The destructor waits for running
// handlers, so that none uses the target afterwards. At most one object exists at a time.
class StoppedBySignals {
 public:
  StoppedBySignals(void (*stop)(void* target), void* target, const char* notice);
  ~StoppedBySignals();
  StoppedBySignals(const StoppedBySignals&) = delete;
  StoppedBySignals& operator=(const StoppedBySignals&) = delete;
};
// Returns true after a signal that catch_signals() catches, so that code which waits for another process can stop waiting.
bool was_asked_to_stop();
// Catches SIGINT, SIGTERM and SIGHUP, so that they end the work of StoppedBySignals instead of the process.
void catch_signals();
// Makes several signals within a second count as one request to stop. A rank can receive a request more than once: the
// terminal, a batch system or an init system sends the signal to each process of the run, and the launcher forwards its
// own copy. After this call, only a signal that arrives more than a second after the first one ends the process.
void join_repeated_signals();
// Restores the default actions: a signal ends the process.
void release_signals();

// Must be called in a child between fork and exec: ignores SIGINT again if it was ignored at the start.
void ignore_interrupts_as_before();

}  // namespace plimsoll::cli
