// Everything that the program prints goes through these functions. Tables and results go to standard output; messages
// go to standard error. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll::cli {

// Selects which messages are printed. Results and errors are always printed.
enum class Verbosity { kErrors, kWarnings, kAll };
// Sets the verbosity that --log_level and --quiet request.
void set_verbosity(const Arguments& arguments);
Verbosity verbosity();

// Returns true if standard error is a terminal that can draw a progress bar (TERM is not dumb).
bool is_terminal();
// Returns the number of columns of the terminal of standard error, at most 160, or 100 if it is unknown.
int terminal_columns();
// Returns the number of columns of the terminal of standard output, or 0 if standard output is not a terminal.
int output_columns();
// Returns the locale for the character encoding: the first of LC_ALL, LC_CTYPE and LANG that is set, or "C".
std::string character_locale();
// Returns true if the locale of character_locale() is not UTF-8, so that only ASCII can be drawn.
bool is_ascii_only();

// Print a line to standard error: a message about the progress of the work, a warning, a note, or an error. Messages
// about progress and notes are printed only with Verbosity kAll, and warnings only with kWarnings or kAll. On a
// terminal the word "warning:" and the name of the program before an error have a colour, unless NO_COLOR is set.
void say(const std::string& line);
void say_warning(const std::string& text);
void say_error(const std::string& text);
// Prints a line that another process has written to its standard error, with any verbosity.
void say_for_other(const std::string& line);
// Starts a new line after a progress bar that another process has drawn on the terminal.
void erase_progress_bar();
// Prints warnings and notes, one line each.
void say_all(const std::vector<std::string>& warnings, const std::vector<std::string>& notes);

// Keeps standard output for one JSON value: from now on print() and its variants write to standard error, and only print_json()
// writes to standard output.
void keep_output_for_json();
// Prints the JSON of the option --json to standard output.
void print_json(const std::string& json);

// From now on prints only errors, no results and no other messages. Called in every rank but the first, which prints
// them.
void leave_output_to_first_rank();

// Prints a result of the command, such as a table, to standard output.
void print(const std::string& text);
// Prints a part of a line of a result immediately, such as a generated token.
void print_part(const std::string& text);
// Prints a table or a message that is not a result to standard output. Prints nothing if the verbosity is below kAll.
void print_talk(const std::string& text);
// Flushes standard output, for a program that waits for a line of it.
void flush_output();
// Returns true if writing to standard output has failed. The program then ends with kDevice, and code that
// only prints can stop.
bool output_is_lost();
// Returns the error number of the first failed write to standard output, or 0.
int output_fault();

}  // namespace plimsoll::cli
